#!/usr/bin/env python3
"""Makes counts.json: texts of all scripts and kinds with their counts by Python tiktoken.

    pip install tiktoken==0.14.0
    python3 generate.py FOLDER > counts.json

FOLDER holds o200k_base.tiktoken and cl100k_base.tiktoken as OpenAI publishes them; the sources of the crate tiktoken-rs
carry both in `assets/`. Python tiktoken checks their SHA-256. The file has no other input, so it is made again byte for byte.

A case is [o200k, cl100k, parts]; a part is [snippet, from, to, times]: characters from..to of the snippet, repeated.
"""
import hashlib, json, os, shutil, sys, tempfile

URL = "https://openaipublic.blob.core.windows.net/encodings/%s.tiktoken"
NAMES = ("o200k_base", "cl100k_base")


class Random:
    """Knuth's MMIX generator: the same numbers in every version of Python."""

    def __init__(self, seed):
        self.state = seed

    def below(self, bound):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.state >> 33) % bound


def letters(random, alphabet, count):
    return "".join(alphabet[random.below(len(alphabet))] for _ in range(count))


def unicode_sample(random):
    """A few characters of every block, without surrogates."""
    chars = []
    for start in range(0, 0x323B0, 0x40):
        for _ in range(2):
            code = start + random.below(0x40)
            if not 0xD800 <= code < 0xE000:
                chars.append(chr(code))
    return "".join(chars)


def snippets():
    random = Random(20260801)
    base64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    return {
        "english": "The failing test expects the parser to keep the comment above the first key; it's been there since we've split the file. I'll fix it, don't worry, they'd NEVER've noticed. That costs $1,234.56 (about 12%).\n\nNext: run `cargo test`?",
        "german": "Größere Übungen führen zu Überraschungen: Straßenverkehrsordnungsänderungsverordnung, 3,5 % – „ja“, sagte der Prüfer. ẞ",
        "french": "L'été dernier, j’ai vu où naît l’œuvre : « ça alors ! » — 1 234 567,89 € à payer, n'est-ce pas ?",
        "spanish": "¿Qué pasó con el archivo? ¡Mañana lo arreglo! El niño pidió 2.º café, según él.",
        "polish": "Zażółć gęślą jaźń; łódź źle płynęła przez świętokrzyskie mgły.",
        "turkish": "İstanbul'da ığdır çiçeği; I ve i, İ ve ı ayrıdır.",
        "vietnamese": "Tôi không thể chạy được bài kiểm thử này; xin hãy sửa lỗi rồi thử lại nhé.",
        "cyrillic": "Сначала запусти тесты, потом покажи, какие файлы нужно изменить. ВНИМАНИЕ: 3 ошибки! Об'єкт не знайдено, ґанок, їжак.",
        "greek": "Τρέξε πρώτα τις δοκιμές και μετά δείξε ποια αρχεία αλλάζουν. ΆΛΛΟ: ἀρχὴ ἥμισυ παντός.",
        "armenian_georgian": "Բարեւ աշխարհ, ինչպե՞ս ես։ გამარჯობა მსოფლიო, როგორ ხარ? ᲒᲐᲛᲐᲠᲯᲝᲑᲐ",
        "arabic": "شغّل الاختبارات أولاً ثم أخبرني أيّ الملفات تحتاج إلى تعديل، رقم ١٢٣٤٥ من ٦٧. لا بأس؟",
        "hebrew": "הרץ קודם את הבדיקות, אחר כך אמור לי אילו קבצים לשנות. שָׁלוֹם עֲלֵיכֶם 123.",
        "devanagari": "पहले परीक्षण चलाइए, फिर बताइए कि कौन सी फ़ाइलें बदलनी हैं। संख्या १२३४५६ है। क्षत्रिय",
        "bengali_tamil": "প্রথমে পরীক্ষা চালান, তারপর বলুন। முதலில் சோதனையை இயக்கவும், பிறகு சொல்லுங்கள்.",
        "thai": "โปรดรันการทดสอบก่อน แล้วบอกว่าไฟล์ใดต้องแก้ไข จำนวน ๑๒๓ รายการ",
        "khmer_burmese": "សូមដំណើរការតេស្តជាមុនសិន။ စမ်းသပ်မှုကို အရင်လုပ်ပါ။",
        "ethiopic_cherokee": "ሰላም ለዓለም፣ እንዴት ነህ? ᎣᏏᏲ ᎡᎶᎯ",
        "chinese": "请先运行测试，然后告诉我哪些文件需要修改。如果构建失败，请把完整的错误信息贴出来！共有１２３个文件。",
        "traditional": "請先執行測試，再告訴我哪些檔案需要修改；「錯誤」一共三個，龜鱉竈鑿。",
        "japanese": "まずテストを実行して、どのファイルを直す必要があるか教えてください。エラーメッセージは全部貼ってね。ＡＢＣ　ｶﾀｶﾅ々〆",
        "korean": "먼저 테스트를 실행한 다음 어떤 파일을 고쳐야 하는지 알려 주세요. 오류 메시지도 전부요! ㅋㅋㅋ 각",
        "rare_han": "𠀀𠮷𡈽𩸽𰻝𪚥 㐀㐁㒲 豈更車",
        "emoji": "👍🏽 👩‍👩‍👧‍👦 🏳️‍🌈 🇩🇪🇯🇵 ❤️‍🔥 👨🏿‍🚀 1️⃣ ☎︎ ☎️ 🫠🫶🏻 ✅❌",
        "marks": "e\u0301a\u0308o\u0302\u0301 Z\u0351\u036b\u0343a\u0329l\u0321\u0353g\u033bo\u0321 \u0301\u0301 \u200da\u200d\u200c \ufeff\u202eabc\u202c n\u0303",
        "letters_like": "ʼn ǅ ǈ ᾈ ﬁ ﬀ ﷽ ℵ ⅷ Ⅷ ① ½ ² ₃ Ⓐⓐ 𝒜𝔸𝛂 ªº ſ K Å 'ſ 'S 'LL 'vE 'Re",
        "numbers": "0 1 12 123 1234 12345 1234567890123 3.14159 -1e-9 0x1F 0b101 1_000 192.168.0.1 ١٢٣٤ １２３ ⅣⅤ",
        "rust": "impl<'a> Parser<'a> {\n    pub fn next_token(&mut self) -> Option<Token<'a>> {\n        while let Some(c) = self.chars.peek() {\n            if c.is_whitespace() { self.chars.next(); continue; }\n            return self.readIdentifier(MAX_LEN_2);\n        }\n        None // done\n    }\n}\n",
        "python": "def total(items: list[int], *, start=0) -> int:\n    \"\"\"Sums.\"\"\"\n    return start + sum(x ** 2 for x in items if x % 3 != 0)\n\n\nif __name__ == '__main__':\n    print(f\"{total([1, 2, 3])!r}\")\n",
        "javascript": "export const useHTTPClient = async (url, {retries = 3} = {}) => {\n\tfor (let i = 0; i < retries; i++) {\n\t\ttry { return await fetch(`${url}?t=${Date.now()}`); } catch (e) { console.error(e?.message ?? 'XMLHttpRequest'); }\n\t}\n};\n",
        "c": "#include <stdio.h>\r\n\r\nint main(int argc, char **argv) {\r\n\tfor (int i = 0; i < argc; ++i) printf(\"%s\\n\", argv[i]); /* all */\r\n\treturn 0;\r\n}\r\n",
        "sql_shell": "SELECT u.id, COUNT(*) AS n FROM users u LEFT JOIN orders o ON o.user_id=u.id GROUP BY 1 HAVING n>=2;\n$ find . -name '*.rs' -print0 | xargs -0 grep -nE \"fn\\s+\\w+\" 2>/dev/null || echo \"exit=$?\"\n",
        "html_css": "<div class=\"card__title--active\" style='margin:0 auto;color:#ff00AA'>&nbsp;&lt;b&gt;</div>\n.card>a:hover::after{content:\"\\2014\";}\n",
        "json": "{\"results\":[{\"path\":\"src/main.rs\",\"line\":42,\"text\":\"let totalCount = items.len();\\n\\t\\\"x\\\"\"},{\"ok\":true,\"n\":null,\"f\":-1.5e+10}],\"truncated\":false}",
        "json_indented": "{\n  \"name\": \"demo\",\n  \"dependencies\": {\n    \"left-pad\": \"^1.3.0\",\n    \"@scope/pkg\": \"workspace:*\"\n  }\n}\n",
        "yaml": "jobs:\n  test:\n    runs-on: ubuntu-latest\n    steps:\n      - uses: actions/checkout@v4\n      - run: |\n          cargo test --all\n",
        "diff": "diff --git a/src/lib.rs b/src/lib.rs\nindex 83db48f..bf2a3c1 100644\n--- a/src/lib.rs\n+++ b/src/lib.rs\n@@ -1,7 +1,8 @@ fn main() {\n-    let x = 1;\n+    let x = 2;\n+    let yZ = x;\n \n context\n\\ No newline at end of file\n",
        "log": "2026-08-01T12:34:56.789Z ERROR [worker-3] com.example.Foo: Connection refused (os error 111) at 10.0.0.7:5432\n\tat java.base/java.lang.Thread.run(Thread.java:829)\n[ 12.345678] usb 1-1: new high-speed USB device number 2\n",
        "listing": "total 84\ndrwxr-xr-x  2 root root   4096 Nov 30 21:46 src\n-rw-r--r--  1 root root  33354 Nov 30 21:46 Cargo.lock\nlrwxrwxrwx  1 root root      7 Nov 30 21:46 bin -> usr/bin\n",
        "table": "| name      | count |   %  |\n|:----------|------:|:----:|\n| **alpha** | 1,024 | 12.5 |\n| `beta_2`  |     7 |  –   |\n\n1. [x] done\n2. [ ] open\n   - ~~old~~ → new\n> quote\n\n---\n```rust\n```\n",
        "box_drawing": "┌──────┬────┐\n│ name │ ✓  │\n├──────┼────┤\n╰━━━━━━▓▒░█▌▐\n⠋⠙⠹⠸⠼⠴ 100%|██████████| 10/10\n",
        "urls": "https://user:pw@example.com:8080/a/b%20c/../d?q=1&r=%C3%A9#frag mailto:x.y+z@ex.co.uk C:\\Users\\dev\\AppData\\Local\\Temp\\~x.tmp /usr/lib/x86_64-linux-gnu/libc.so.6",
        "math": "∀x∈ℝ: ∑_{i=1}^{n} x_i² ≤ √(∫₀^∞ e^{-t²} dt) ⇒ α≈β ≠ γ ± 0.5 $\\frac{\\partial f}{\\partial x}$",
        "specials": "<|endoftext|><|im_start|>user<|im_sep|>hi<|im_end|><|fim_prefix|><|endofprompt|>[INST]</s><|start|>assistant<|channel|>",
        "blanks": "a b  c   d    e     f\tg\t\th\t \ti \n j\n\n\nk  \n  l\r\n\r\nm \r n\u00a0o\u00a0\u00a0p\u2003q\u3000\u3000r\u2028s\u2029t\x0bu\x0cv\x85w\u200bx   \n\n   y        ",
        "controls": "\x00\x01\x02\x07\x08\x0e\x1b[31mred\x1b[0m\x1b]0;title\x07\x1c\x1d\x1e\x1f\x7f\x80\x9f\u200e\ufffd\ufffe\uffff",
        "signs": "!!! ??? ... --- === ### *** ___ ((( ))) [[[ ]]] {{{ }}} ;;; ::: ,,, ''' \"\"\" ``` ~~~ ^^^ &&& %%% $$$ @@@ ||| \\\\\\ /// <<< >>> ./\n//\n/ !\n\n?\r\n//",
        "camel": "XMLHttpRequest getHTTPResponseCode iOSApp snake_case_name SCREAMING_SNAKE kebab-case-name a1b2C3 ABCdef aBC ÀÉb éÀ ΑΒγ ЖЩц",
        "apostrophes": "it's IT'S we'll WE'LL they've you're I'm he'd 'tis rock'n'roll O'Brien's 's 't 're 've 'm 'll 'd 'S's ''s",
        "hex": letters(random, "0123456789abcdef", 900),
        "hexdump": "00000000: 7f45 4c46 0201 0100 0000 0000 0000 0000  .ELF............\n00000010: 0300 3e00 0100 0000 1045 0000 0000 0000  ..>......E......\n",
        "base64": letters(random, base64, 1500) + "==",
        "letters": letters(random, "abcdefghijklmnopqrstuvwxyz", 1200),
        "mixed_case": letters(random, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", 900),
        "sign_soup": letters(random, "!#$%&()*+,-./:;<=>?@[]^_{|}~\\\"'`", 600),
        "blank_soup": letters(random, "  \t\n\r\n  \u00a0\u3000", 500),
        "uuid": "550e8400-e29b-41d4-a716-446655440000 sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 toolu_01A09q90qw90lq917835lq9 call_abc123XYZ",
        "unicode": unicode_sample(random),
    }


# Repeated many times each; the runs stay below the length at which a count may cut them.
UNITS = " aA7_-=*#.\n\t\r/\\\"'(0é汉あ한👍\u0301\u200d\u00a0\u3000\x00Яש१ﬁ½"
TIMES = (2, 3, 5, 8, 17, 64, 100, 257, 1000)
# Longer than that; what a cut may change is the tolerance in the test that reads them.
LONG = (16_384, 16_385, 50_000, 100_000)


def cases(texts):
    names = list(texts)
    random = Random(7)
    for index, name in enumerate(names):
        yield [[index, 0, len(texts[name]), 1]]
        yield [[index, 0, len(texts[name]), 7]]
    for _ in range(2600):
        parts = []
        for _ in range(1 + random.below(4)):
            index = random.below(len(names))
            length = len(texts[names[index]])
            start = random.below(length)
            parts.append([index, start, min(length, start + 1 + random.below(120)), 1 + (random.below(9) == 0) * random.below(40)])
        yield parts
    unit = len(names)
    prose = names.index("english")
    for at in range(len(UNITS)):
        for times in TIMES:
            yield [[unit, at, at + 1, times]]
            yield [[prose, 0, 7, 1], [unit, at, at + 1, times], [prose, 4, 16, 1]]


def long_cases():
    for at in range(len(UNITS)):
        for times in LONG:
            yield [at, times]


def main():
    cache = tempfile.mkdtemp()
    for name in NAMES:
        key = hashlib.sha1((URL % name).encode()).hexdigest()
        shutil.copyfile(os.path.join(sys.argv[1], name + ".tiktoken"), os.path.join(cache, key))
    os.environ["TIKTOKEN_CACHE_DIR"] = cache
    import tiktoken

    encodings = [tiktoken.get_encoding(name) for name in NAMES]
    count = lambda text: [len(encoding.encode_ordinary(text)) for encoding in encodings]
    texts = snippets()
    sources = list(texts.values()) + [UNITS]
    build = lambda parts: "".join(sources[i][start:end] * times for i, start, end, times in parts)
    line = lambda value: json.dumps(value, separators=(",", ":"))
    out = sys.stdout.write
    out('{"made_with":"tiktoken %s",\n"snippets":[\n' % tiktoken.__version__)
    out(",\n".join(line([name, text]) for name, text in [*texts.items(), ("units", UNITS)]))
    out('\n],\n"cases":[\n')
    out(",\n".join(line([*count(build(parts)), parts]) for parts in cases(texts)))
    out('\n],\n"long":[\n')
    out(",\n".join(line([*count(UNITS[at] * times), at, times]) for at, times in long_cases()))
    out("\n]}\n")
    shutil.rmtree(cache)


main()
