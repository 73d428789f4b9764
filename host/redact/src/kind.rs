//! The kinds of secrets, as they are named in a mask and in a receipt.

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        /// What a secret is.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Kind { $($(#[$doc])* $name,)* }

        impl Kind {
            /// Every kind.
            pub const ALL: &'static [Kind] = &[$(Kind::$name,)*];
            /// Returns the word in a mask: `[redacted:WORD]`.
            pub const fn as_str(self) -> &'static str {
                match self { $(Kind::$name => $text,)* }
            }
        }
    };
}

kinds! {
    /// OpenAI, Anthropic, OpenRouter and others whose keys begin with `sk-`.
    ModelKey = "model-key";
    /// Keys of other hosts of models: Groq, xAI, Replicate, Perplexity, Hugging Face.
    ModelHostKey = "model-host-key";
    /// GitHub tokens of every prefix.
    GitHub = "github-token";
    /// GitLab tokens.
    GitLab = "gitlab-token";
    /// AWS access key ids.
    AwsKeyId = "aws-key-id";
    /// Google API keys.
    GoogleKey = "google-key";
    /// Google OAuth tokens and client secrets.
    GoogleOauth = "google-oauth";
    /// Azure storage and bus keys, shared access signatures.
    Azure = "azure-key";
    /// Slack tokens.
    Slack = "slack-token";
    /// Addresses that anyone who knows them can post to: Slack, Discord, Teams.
    Webhook = "webhook";
    /// Telegram bot tokens.
    Telegram = "telegram-token";
    /// Discord bot tokens.
    Discord = "discord-token";
    /// Stripe keys and webhook secrets.
    Stripe = "stripe-key";
    /// SendGrid keys.
    SendGrid = "sendgrid-key";
    /// Mailgun keys.
    Mailgun = "mailgun-key";
    /// npm tokens.
    Npm = "npm-token";
    /// PyPI tokens.
    PyPi = "pypi-token";
    /// crates.io tokens.
    CratesIo = "crates-io-token";
    /// Docker Hub tokens.
    DockerHub = "docker-token";
    /// DigitalOcean tokens.
    DigitalOcean = "digitalocean-token";
    /// Heroku tokens.
    Heroku = "heroku-token";
    /// Shopify tokens.
    Shopify = "shopify-token";
    /// Databricks tokens.
    Databricks = "databricks-token";
    /// HashiCorp Vault tokens.
    Vault = "vault-token";
    /// Tokens of other services with a prefix of their own: Linear, Notion, Figma, Grafana, Sentry, Tailscale, ...
    Service = "service-token";
    /// JSON web tokens.
    Jwt = "jwt";
    /// Private keys in their frames.
    PrivateKey = "private-key";
    /// The password of an address.
    UrlPassword = "url-password";
    /// The value of an `Authorization` header.
    Authorization = "authorization";
    /// The values of a cookie.
    Cookie = "cookie";
    /// A password or passphrase given by its name.
    Password = "password";
    /// A secret given by its name.
    Secret = "secret";
    /// A key given by its name.
    ApiKey = "api-key";
    /// A token given by its name.
    Token = "token";
    /// A one-time code given by its name.
    OneTimeCode = "one-time-code";
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
