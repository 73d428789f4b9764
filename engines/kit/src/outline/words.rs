//! Words by which a rule, a decision, remaining work or an open question is told in the larger languages. They are weak
//! hints: what stands where in the conversation counts first, so a language that is not here loses little.

use crate::text::prefix;

/// Bytes of a sentence that are looked at.
const SENTENCE_BYTES: usize = 600;

/// Words of a person who sets a rule.
pub(super) const RULE: &[&str] = &[
    "must ",
    "never ",
    "always ",
    "don't ",
    "do not ",
    "only use ",
    "prefer ",
    "make sure",
    "without ",
    "niemals",
    "immer ",
    "bitte nicht",
    "darf nicht",
    "müssen",
    "jamais",
    "toujours",
    "ne pas ",
    "doit ",
    "nunca",
    "siempre",
    "sempre ",
    "no debes",
    "não ",
    "deve ",
    "mai ",
    "никогда",
    "всегда",
    "нельзя",
    "должен",
    "nigdy",
    "zawsze",
    "nooit",
    "altijd",
    "asla ",
    "不要",
    "必须",
    "必須",
    "务必",
    "しないで",
    "必ず",
    "하지 마",
    "반드시",
    "항상",
    "لا ت",
    "يجب",
    "दائما",
    "मत ",
    "हमेशा",
    "कभी ",
];
/// Words of a model that has decided or found a cause.
pub(super) const DECISION: &[&str] = &[
    "decided",
    "instead of",
    "root cause",
    "because ",
    "i'll use",
    "we'll use",
    "will use ",
    "chose ",
    "turns out",
    "the fix is",
    "entschieden",
    "ursache",
    "stattdessen",
    "weil ",
    "décidé",
    "la cause",
    "au lieu de",
    "parce que",
    "decidí",
    "decidi",
    "en lugar de",
    "em vez de",
    "la causa",
    "a causa",
    "porque",
    "perché",
    "invece di",
    "решил",
    "причина",
    "вместо",
    "потому что",
    "postanowi",
    "zamiast",
    "ponieważ",
    "besloten",
    "oorzaak",
    "omdat",
    "karar ",
    "yerine",
    "çünkü",
    "决定",
    "決定",
    "原因",
    "因为",
    "改用",
    "ため",
    "代わりに",
    "결정",
    "원인",
    "때문",
    "대신",
    "قررت",
    "السبب",
    "بدلا",
    "لأن",
    "फैसला",
    "कारण",
    "बजाय",
    "क्योंकि",
];
/// Words for what is still to be done.
pub(super) const REMAINING: &[&str] = &[
    "todo",
    "next step",
    "remaining",
    "still need",
    "follow-up",
    "not yet ",
    "als nächstes",
    "nächster schritt",
    "noch nicht",
    "fehlt noch",
    "reste à",
    "prochaine étape",
    "pas encore",
    "falta",
    "siguiente paso",
    "próximo passo",
    "pendiente",
    "pendente",
    "todavía no",
    "ainda não",
    "rimane",
    "prossimo passo",
    "осталось",
    "следующий шаг",
    "ещё не",
    "pozostało",
    "następny krok",
    "jeszcze nie",
    "volgende stap",
    "nog niet",
    "sonraki adım",
    "henüz",
    "下一步",
    "接下来",
    "还没",
    "尚未",
    "次に",
    "残り",
    "まだ",
    "다음 단계",
    "남은",
    "아직",
    "الخطوة التالية",
    "لم يتم",
    "अगला",
    "बाकी",
    "अभी तक",
];

/// Tells whether a sentence has one of the words.
pub(super) fn has(sentence: &str, words: &[&str]) -> bool {
    let lower = prefix(sentence, SENTENCE_BYTES).to_lowercase();
    words.iter().any(|word| lower.contains(word))
}

/// Signs that end a sentence with a question.
pub(super) const QUESTION_SIGNS: [char; 5] = ['?', '？', '؟', ';', '՞'];

/// Splits a text at line ends and where sentences end in any of the common scripts.
pub(super) fn sentences(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .filter(|line| !is_noise(line))
        .flat_map(|line| {
            line.split_inclusive(". ").flat_map(|piece| piece.split_inclusive(['。', '！', '？', '।', '؟', '۔', '…']))
        })
        .map(str::trim)
        .filter(|sentence| sentence.chars().take(4).count() > 3 && !sentence.starts_with("```"))
}

/// Tells whether a line is a tag that a client put around a text, or nothing but signs.
fn is_noise(line: &str) -> bool {
    let line = line.trim();
    let is_tag = line.starts_with('<') && line.ends_with('>') && !line.contains(' ');
    is_tag || !line.chars().any(char::is_alphanumeric)
}

/// Tells whether a statement says nothing that a reader would miss.
pub(super) fn is_empty_talk(statement: &str) -> bool {
    const TALK: &[&str] = &[
        "ok",
        "okay",
        "done",
        "sure",
        "yes",
        "no",
        "thanks",
        "thank you",
        "great",
        "perfect",
        "good",
        "understood",
        "got it",
        "let me check",
        "let me look",
        "let me see",
        "fertig",
        "gut",
        "danke",
        "listo",
        "hecho",
        "gracias",
        "pronto",
        "feito",
        "obrigado",
        "merci",
        "d'accord",
        "хорошо",
        "готово",
        "спасибо",
        "好的",
        "完成",
        "谢谢",
        "はい",
        "完了しました",
        "네",
        "완료",
        "تم",
        "हाँ",
    ];
    let trimmed = statement.trim_end_matches(['.', '!', '。', '！', ':', ' ', '…']).to_lowercase();
    TALK.contains(&trimmed.as_str())
}

/// Returns a text without the blocks that clients put into messages for their own use.
pub(super) fn without_client_blocks(text: &str) -> String {
    const BLOCKS: &[&str] =
        &["system-reminder", "environment_context", "environment_details", "user_instructions", "local-command-stdout"];
    let mut out = String::new();
    let mut rest = text;
    while let Some((at, tag)) = BLOCKS.iter().filter_map(|tag| Some((rest.find(&format!("<{tag}>"))?, tag))).min() {
        out.push_str(rest.get(..at).unwrap_or_default());
        let inside = rest.get(at..).unwrap_or_default();
        let end = format!("</{tag}>");
        // A block without an end goes to the text's end.
        rest = inside.find(&end).and_then(|at| inside.get(at + end.len()..)).unwrap_or_default();
    }
    out.push_str(rest);
    out
}
