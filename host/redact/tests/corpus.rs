//! Made-up secrets in the forms their vendors document, in the places where agents meet them; and what only looks alike.
//!
//! Every secret is put together when the test runs, so that nothing in the repository looks like a live key.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use host_redact::{redact, scan};
use std::collections::BTreeMap;

/// A small generator of pseudo-random numbers (xorshift), so that each run sees the same secrets.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    fn of(&mut self, alphabet: &str, length: usize) -> String {
        let letters: Vec<char> = alphabet.chars().collect();
        (0..length).map(|_| letters[self.next() as usize % letters.len()]).collect()
    }
}

const LOWER: &str = "abcdefghijklmnopqrstuvwxyz";
const HEX: &str = "0123456789abcdef";
const UPPER_DIGITS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const ALNUM: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const URL64: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const BASE64: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Random text with a digit, an upper- and a lower-case letter in it, as every real key of its length has.
fn mixed(rng: &mut Rng, alphabet: &str, length: usize) -> String {
    let body = rng.of(alphabet, length.saturating_sub(3));
    format!("k{body}7Q")
}

/// One secret: the whole that is put into a text, and the part that must not survive.
struct Secret {
    kind: &'static str,
    whole: String,
    hidden: String,
}

fn whole(kind: &'static str, text: String) -> Secret {
    Secret { kind, hidden: text.clone(), whole: text }
}

/// Keys that may stand anywhere.
fn keys(rng: &mut Rng) -> Vec<Secret> {
    let jwt = format!("eyJ{}.eyJ{}.{}", mixed(rng, URL64, 30), mixed(rng, URL64, 90), mixed(rng, URL64, 43));
    vec![
        whole("openai", format!("sk-proj-{}", mixed(rng, URL64, 120))),
        whole("openai", format!("sk-{}", mixed(rng, ALNUM, 48))),
        whole("anthropic", format!("sk-ant-api03-{}AA", mixed(rng, URL64, 93))),
        whole("openrouter", format!("sk-or-v1-{}", rng.of(HEX, 64))),
        whole("groq", format!("gsk_{}", mixed(rng, ALNUM, 52))),
        whole("xai", format!("xai-{}", mixed(rng, ALNUM, 80))),
        whole("replicate", format!("r8_{}", mixed(rng, ALNUM, 37))),
        whole("hugging-face", format!("hf_{}", mixed(rng, ALNUM, 34))),
        whole("github-classic", format!("ghp_{}", mixed(rng, ALNUM, 36))),
        whole("github-app", format!("ghs_{}", mixed(rng, ALNUM, 36))),
        whole("github-oauth", format!("gho_{}", mixed(rng, ALNUM, 36))),
        whole("github-fine", format!("github_pat_{}_{}", mixed(rng, ALNUM, 22), mixed(rng, ALNUM, 59))),
        whole("gitlab", format!("glpat-{}", mixed(rng, URL64, 20))),
        whole("aws-id", format!("AKIA{}", rng.of(UPPER_DIGITS, 16))),
        whole("aws-id", format!("ASIA{}", rng.of(UPPER_DIGITS, 16))),
        whole("google", format!("AIza{}", mixed(rng, URL64, 35))),
        whole("google-oauth", format!("ya29.{}", mixed(rng, URL64, 140))),
        whole("google-client", format!("GOCSPX-{}", mixed(rng, URL64, 28))),
        whole(
            "slack-bot",
            format!("xoxb-{}-{}-{}", 2_471_283_942_133_u64, 2_486_993_118_227_u64, mixed(rng, ALNUM, 24)),
        ),
        whole("slack-app", format!("xapp-1-A0{}-{}-{}", rng.of(UPPER_DIGITS, 9), 24_861_229_u64, rng.of(HEX, 64))),
        Secret { kind: "slack-hook", hidden: mixed(rng, ALNUM, 24), whole: String::new() },
        whole("telegram", format!("{}:AA{}", 5_812_447_091_u64, mixed(rng, URL64, 33))),
        whole("stripe", format!("sk_live_{}", mixed(rng, ALNUM, 99))),
        whole("stripe-test", format!("rk_test_{}", mixed(rng, ALNUM, 24))),
        whole("stripe-hook", format!("whsec_{}", mixed(rng, ALNUM, 32))),
        whole("sendgrid", format!("SG.{}.{}", mixed(rng, URL64, 22), mixed(rng, URL64, 43))),
        whole("mailgun", format!("key-{}", rng.of(HEX, 32))),
        whole("npm", format!("npm_{}", mixed(rng, ALNUM, 36))),
        whole("pypi", format!("pypi-AgEIcHlwaS5vcmc{}", mixed(rng, URL64, 150))),
        whole("crates-io", format!("cio{}", mixed(rng, ALNUM, 32))),
        whole("docker", format!("dckr_pat_{}", mixed(rng, URL64, 27))),
        whole("digitalocean", format!("dop_v1_{}", rng.of(HEX, 64))),
        whole("shopify", format!("shpat_{}", rng.of(HEX, 32))),
        whole("databricks", format!("dapi{}", rng.of(HEX, 32))),
        whole("vault", format!("hvs.{}", mixed(rng, URL64, 95))),
        whole("linear", format!("lin_api_{}", mixed(rng, ALNUM, 40))),
        whole("figma", format!("figd_{}", mixed(rng, URL64, 43))),
        whole("grafana", format!("glsa_{}_{}", mixed(rng, ALNUM, 32), rng.of(HEX, 8))),
        whole("tailscale", format!("tskey-auth-{}-{}", mixed(rng, ALNUM, 12), mixed(rng, ALNUM, 32))),
        whole("jwt", jwt),
    ]
    .into_iter()
    .map(|secret| {
        if secret.kind != "slack-hook" {
            return secret;
        }
        let whole = format!("https://hooks.slack.com/services/T0{}/B0{}/{}", "2QK4M7ZD", "5XN8P1RC", secret.hidden);
        Secret { whole, ..secret }
    })
    .collect()
}

/// Where a key that may stand anywhere is met.
const PLACES: &[&str] = &[
    "{}",
    "export API={}\n",
    "curl -s -H 'X-Thing: {}' https://api.example.org/v1/items",
    "{\"result\":{\"value\":\"{}\",\"ok\":true}}",
    "{\\\"env\\\":\\\"line one\\\\n{}\\\\nline three\\\"}",
    "2026-03-01T10:00:00Z ERROR client: request with {} was refused (401)",
    "  key: {}  # rotated in March",
    "The user pasted {}, please use it.",
    "https://api.example.org/items?page=2&k={}&sort=asc",
    "const client = new Client(`{}`);",
    "鍵は{}です。",
    "{\"text\":\"first\\n{}\\nlast\"}",
];

/// Secrets that only their name gives away.
fn named(rng: &mut Rng) -> Vec<Secret> {
    let mut out = Vec::new();
    let mut put = |kind: &'static str, template: &str, hidden: String| {
        out.push(Secret { kind, whole: template.replace("{}", &hidden), hidden });
    };
    for _ in 0..2 {
        put("password", "DB_PASSWORD={}", mixed(rng, ALNUM, 14));
        put("password", "password: \"{}\"", format!("{}!9x", rng.of(LOWER, 9)));
        put("password", "{\"username\":\"ann\",\"password\":\"{}\"}", format!("{}#1", mixed(rng, ALNUM, 9)));
        put("password", "{\\\"db\\\":{\\\"password\\\":\\\"{}\\\"}}", mixed(rng, ALNUM, 12));
        put("password", "mysql --user=root --password={} app", mixed(rng, ALNUM, 11));
        put("password", "Server=db;Database=app;User Id=sa;Password={};Encrypt=true", mixed(rng, ALNUM, 13));
        put("password", "machine api.example.org login ann password {}", mixed(rng, ALNUM, 16));
        put("password", "spring.datasource.password={}", mixed(rng, ALNUM, 12));
        put("password", "SMTP_PASS={}", mixed(rng, ALNUM, 15));
        put("password", "<password>{}</password>", mixed(rng, ALNUM, 14));
        put("password", "The ssh_password is {}, please use it.", mixed(rng, ALNUM, 14));
        put("password", "密码：{}", mixed(rng, ALNUM, 14));
        put("password", "пароль: {}", mixed(rng, ALNUM, 14));
        put("passphrase", "ssh_passphrase = '{}'", format!("{} {}", rng.of(LOWER, 7), mixed(rng, ALNUM, 9)));
        put("secret", "CLIENT_SECRET={}", mixed(rng, URL64, 40));
        put("secret", "client_secret: {}", mixed(rng, ALNUM, 32));
        put("secret", "  \"clientSecret\": \"{}\",", mixed(rng, URL64, 36));
        put("secret", "NEXTAUTH_SECRET=\"{}\"", format!("{}=", mixed(rng, BASE64, 43)));
        put("secret", "SECRET_KEY = '{}'", mixed(rng, "abcdefghijklmnopqrstuvwxyz0123456789!@#$%^&*(-_=+)", 50));
        put("aws-secret", "aws_secret_access_key = {}", mixed(rng, BASE64, 40));
        put("aws-secret", "\"SecretAccessKey\": \"{}\"", mixed(rng, BASE64, 40));
        put(
            "azure",
            "DefaultEndpointsProtocol=https;AccountName=acct;AccountKey={};EndpointSuffix=core",
            format!("{}==", mixed(rng, BASE64, 86)),
        );
        put(
            "azure",
            "https://acct.example.org/c/b?sv=2024-11-04&sr=b&sig={}&se=2027",
            format!("{}%3D", mixed(rng, ALNUM, 43)),
        );
        put("api-key", "X-Api-Key: {}", mixed(rng, ALNUM, 32));
        put("api-key", "apiKey: '{}',", mixed(rng, ALNUM, 28));
        put("api-key", "DD_API_KEY={}", rng.of(HEX, 32));
        put("api-key", "curl 'https://maps.example.org/v1?api_key={}&q=a'", mixed(rng, ALNUM, 30));
        put("cloudflare", "CLOUDFLARE_API_TOKEN={}", mixed(rng, URL64, 40));
        put("twilio", "TWILIO_AUTH_TOKEN={}", rng.of(HEX, 32));
        put(
            "heroku",
            "HEROKU_API_KEY={}",
            format!("{}-{}-{}-{}-{}", rng.of(HEX, 8), rng.of(HEX, 4), rng.of(HEX, 4), rng.of(HEX, 4), rng.of(HEX, 12)),
        );
        put("token", "{\"access_token\":\"{}\",\"expires_in\":3600}", mixed(rng, URL64, 64));
        put("token", "--token {} --yes", mixed(rng, ALNUM, 40));
        put("token", "//registry.example.org/:_authToken={}", mixed(rng, ALNUM, 36));
        put("token", "refreshToken = \"{}\"", mixed(rng, URL64, 48));
        put("token", "    token: {}\n", mixed(rng, ALNUM, 40));
        put("kubeconfig", "    client-key-data: {}", format!("{}==", mixed(rng, BASE64, 120)));
        put(
            "discord",
            "DISCORD_TOKEN={}",
            format!("M{}.{}.{}", mixed(rng, ALNUM, 25), rng.of(ALNUM, 6), mixed(rng, URL64, 38)),
        );
        put("bearer", "Authorization: Bearer {}", mixed(rng, URL64, 40));
        put("bearer", "curl -H \"Authorization: Bearer {}\" https://x.example.org", mixed(rng, URL64, 60));
        put("bearer", "headers={'Authorization': 'token {}'}", mixed(rng, ALNUM, 40));
        put("basic", "authorization: Basic {}", format!("{}=", mixed(rng, BASE64, 31)));
        put("cookie", "Cookie: theme=dark; session={}; lang=en", mixed(rng, URL64, 44));
        put("cookie", "Set-Cookie: sid={}; Path=/; HttpOnly", mixed(rng, ALNUM, 32));
        put(
            "docker-config",
            "{\"auths\":{\"reg.example.org\":{\"auth\":\"{}\"}}}",
            format!("{}=", mixed(rng, BASE64, 31)),
        );
        put("url", "postgres://app:{}@db.internal:5432/app", mixed(rng, ALNUM, 16));
        put("url", "redis://:{}@cache:6379/0", mixed(rng, ALNUM, 20));
        put("url", "git clone https://ann:{}@git.example.org/a/b.git", mixed(rng, ALNUM, 24));
        put("url", "amqp://guest:{}@mq:5672/", format!("{}@{}", rng.of(LOWER, 5), mixed(rng, ALNUM, 6)));
        put("one-time", "Your verification code is {}.", rng.of("123456789", 6));
        put("one-time", "otp: {}", rng.of("123456789", 6));
    }
    out
}

fn frames(rng: &mut Rng) -> Vec<Secret> {
    let mut out = Vec::new();
    for label in [
        "RSA PRIVATE KEY",
        "PRIVATE KEY",
        "EC PRIVATE KEY",
        "OPENSSH PRIVATE KEY",
        "ENCRYPTED PRIVATE KEY",
        "PGP PRIVATE KEY BLOCK",
    ] {
        for line_end in ["\n", "\\n", "\r\n", "\\\\n"] {
            let lines: Vec<String> = (0..12).map(|_| mixed(rng, BASE64, 64)).collect();
            let body = lines.join(line_end);
            let hidden = lines[5].clone();
            let whole = format!("-----BEGIN {label}-----{line_end}{body}{line_end}-----END {label}-----{line_end}done");
            out.push(Secret { kind: "frame", whole, hidden: hidden.clone() });
            let cut = format!("-----BEGIN {label}-----{line_end}{body}");
            out.push(Secret { kind: "frame-cut", whole: cut, hidden });
        }
    }
    out
}

fn corpus() -> Vec<Secret> {
    let mut rng = Rng(0x2545_f491_4f6c_dd1d);
    let mut out = Vec::new();
    for place in PLACES {
        for secret in keys(&mut rng) {
            out.push(Secret { whole: place.replace("{}", &secret.whole), ..secret });
        }
    }
    for round in 0..3 {
        for secret in named(&mut rng) {
            let whole = match round {
                0 => secret.whole,
                1 => format!("$ cat .env\nHOST=db\n{}\nPORT=1\n", secret.whole),
                _ => format!("[tool result]\n> {}\n(exit 0)", secret.whole),
            };
            out.push(Secret { whole, ..secret });
        }
    }
    out.extend(frames(&mut rng));
    out
}

#[test]
fn at_least_99_of_100_secrets_are_found() {
    let corpus = corpus();
    let kinds: BTreeMap<&str, usize> = corpus.iter().fold(BTreeMap::new(), |mut kinds, secret| {
        *kinds.entry(secret.kind).or_default() += 1;
        kinds
    });
    assert!(corpus.len() >= 300 && kinds.len() >= 20, "{} secrets in {} kinds", corpus.len(), kinds.len());
    let missed: Vec<String> = corpus
        .iter()
        .filter(|secret| redact(&secret.whole).contains(&secret.hidden))
        .map(|secret| format!("{}: {}", secret.kind, secret.whole.chars().take(160).collect::<String>()))
        .collect();
    println!("{} of {} secrets in {} kinds found", corpus.len() - missed.len(), corpus.len(), kinds.len());
    assert!(missed.len() * 100 <= corpus.len(), "{} missed:\n{}", missed.len(), missed.join("\n"));
    for secret in &corpus {
        let once = redact(&secret.whole).into_owned();
        assert_eq!(redact(&once), once, "a second pass changes nothing");
    }
}

/// What looks like a secret and is none.
fn harmless() -> Vec<String> {
    let mut rng = Rng(0x9e37_79b9_7f4a_7c15);
    let mut out: Vec<String> = Vec::new();
    for _ in 0..12 {
        out.push(format!("commit {}", rng.of(HEX, 40)));
        out.push(format!("sha256:{}", rng.of(HEX, 64)));
        out.push(format!("\"integrity\": \"sha512-{}==\"", rng.of(BASE64, 86)));
        out.push(format!(
            "id: {}-{}-{}-{}-{}",
            rng.of(HEX, 8),
            rng.of(HEX, 4),
            rng.of(HEX, 4),
            rng.of(HEX, 4),
            rng.of(HEX, 12)
        ));
        out.push(format!("data:image/png;base64,iVBORw0KGgo{}", rng.of(BASE64, 200)));
        out.push(format!("<img src=\"/static/app.{}.js\">", rng.of(HEX, 20)));
        out.push(format!("call_{} toolu_{}", rng.of(ALNUM, 24), rng.of(ALNUM, 22)));
        out.push(format!("etag: W/\"{}\"", rng.of(HEX, 32)));
        out.push(format!("checksum = \"{}\"", rng.of(HEX, 64)));
    }
    let lines = [
        "password = os.environ['DB_PASSWORD']",
        "const token = process.env.GITHUB_TOKEN;",
        "api_key = \"<your-api-key>\"",
        "API_KEY=your_api_key_here",
        "export OPENAI_API_KEY=sk-...",
        "OPENAI_API_KEY=sk-your-key-here",
        "token: ${{ secrets.GITHUB_TOKEN }}",
        "password: ${DB_PASSWORD}",
        "password: str = Field(..., min_length=8)",
        "def login(username: str, password: str) -> Token:",
        "if token == self.expected_token:",
        "max_tokens=4096, total_tokens: 182733",
        "tokenizer = AutoTokenizer.from_pretrained('gpt2')",
        "\"prompt_tokens\": 182733, \"completion_tokens\": 92",
        "let password = read_password()?;",
        "password_hash = bcrypt.hashpw(password, bcrypt.gensalt())",
        "the password must have at least 12 characters",
        "secretary: ann@example.org",
        "secret_name: db-credentials",
        "token_type: bearer",
        "Authorization: Bearer <token>",
        "Authorization: Bearer $TOKEN",
        "headers = {\"Authorization\": f\"Bearer {token}\"}",
        "https://user:password@example.org/path",
        "https://example.org:8443/a@b",
        "see https://example.org/a:b/c@d",
        "git@github.com:owner/repo.git",
        "ssh://git@github.com/owner/repo.git",
        "postgres://user:pass@localhost/db",
        "postgresql://${USER}:${PASS}@db/app",
        "sk-this-is-not-a-key-at-all",
        "task-force-2026-planning-document",
        "disk-usage-report-of-the-whole-cluster",
        "msg.sender.address.of.the.contract.which.is.long.enough.to.be.looked.at",
        "-----BEGIN CERTIFICATE-----\nMIIDdzCCAl+gAwIBAgIEAgAAuTANBgkqhkiG9w0BAQUFADBa\n-----END CERTIFICATE-----",
        "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE\n-----END PUBLIC KEY-----",
        "key: value",
        "primary key: customer_id_2026",
        "cache_key = f\"user:{user_id}:profile:v2\"",
        "secret = get_secret('prod/db')",
        "credentials: include",
        "fetch(url, { credentials: 'same-origin' })",
        "    --- PASS: TestIsProtectedPath/src/main.go (0.00s)",
        "\"@zag-js/password-input\": \"1.33.1\"",
        "usage, tokenErr := geminicli.CalculateTokenUsageFromFile(path)",
        "`pass_rate` = assertion/expectation",
        "the password is required",
        "your token is expired since 2026",
        "the secret is stored in vault2",
        "pass: 12 fail: 0",
        "pass = 0\nfor x in y: pass",
        "bypass=true compass: north",
        "passed: 1234567",
        "assert token.type == TokenType.IDENTIFIER",
        "token: Token = self.lexer.next_token()",
        "Token::Identifier(name) => self.ident(name)",
        "TokenKind: StringLiteral, span: 120..133",
        "api_key: Option<String>",
        "apiKey?: string;",
        "secret: SecretStr",
        "password: z.string().min(8)",
        "cookie: Cookie = None",
        "Cookie: a=1",
        "the otp module has 123456 lines",
        "error code 404015",
        "otp-26.2.1 is the release",
        "AKIA is the prefix of key ids",
        "eyJ is how a token begins",
        "--password-file /run/secrets/db",
        "--token-budget 128000",
        "access_key_id = AWS_ACCESS_KEY_ID",
        "\"auth\": \"required\"",
        "auth: none",
        "private_key_path: /etc/ssl/private/server.key",
        "font-size:12px;-webkit-font-smoothing:antialiased;color:#ff8800",
        "!function(e,t){\"object\"==typeof exports?module.exports=t():e.token=t()}(this,function(){return 1})",
    ];
    out.extend(lines.iter().map(|line| (*line).to_owned()));
    out
}

#[test]
fn what_only_looks_like_a_secret_stays() {
    let harmless = harmless();
    assert!(harmless.len() >= 150, "{}", harmless.len());
    let masked: Vec<String> =
        harmless.iter().filter(|text| redact(text) != text.as_str()).map(|text| redact(text).into_owned()).collect();
    assert!(masked.is_empty(), "{} masked:\n{}", masked.len(), masked.join("\n"));
}

#[test]
fn findings_are_in_order_and_name_their_kind() {
    let mut rng = Rng(7);
    let (github, password) = (format!("ghp_{}", mixed(&mut rng, ALNUM, 36)), mixed(&mut rng, ALNUM, 14));
    let text = format!("token={github} and DB_PASSWORD={password}.");
    let found: Vec<(&str, &str)> = scan(&text).into_iter().map(|one| (one.kind.as_str(), &text[one.range])).collect();
    assert_eq!(found, [("github-token", github.as_str()), ("password", password.as_str())]);
    assert_eq!(redact(&text), "token=[redacted:github-token] and DB_PASSWORD=[redacted:password].");
}
