//! Chooses the model that a summary is cheapest from.
//!
//! On the live prefix the conversation's own model reads nearly everything from its cache; an auxiliary model reads only
//! what is summarised, but at the full price. With P and o the prices of input and output, r and w the multiples for
//! cached tokens read and written, N the prefix, q the instruction, M the material and S the summary:
//! on the prefix P·(r·N + w·q) + o·S, or P·w·(N + q) + o·S with a cold cache; otherwise P·(M + q) + o·S.

use crate::chunk;
use crate::endpoint::Target;
use crate::prices::{Price, Prices};
use engine_api::CompletionModel;
use host_core::summariser::{Route, Sizes};

/// Tokens of the instruction around the material: that of Hermes has 6,800 characters.
const INSTRUCTION_TOKENS: u64 = 1_700;
/// What is assumed of a price that is not known: in units of the main model's input token, an answer's token costs five,
/// a cached one a tenth, and writing one to the cache a quarter more. Most of the embedded table is near that.
const UNKNOWN: Price = Price { input: 1.0, output: 5.0, read: 0.1, write: 1.25, window: 0, output_max: 0, tier: None };
/// What another model is assumed to cost, compared with the conversation's: summaries are given to smaller models.
const OTHER_MODEL_SHARE: f64 = 0.25;
/// Share of a part's length that notes on it are asked to have.
const NOTES_SHARE: u64 = 10;

/// What can be asked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Options<'a> {
    /// The conversation's own model on the live prefix, or why not.
    pub(crate) prefix: Result<&'a Target, &'a str>,
    /// The auxiliary model, or the conversation's own in its place, or why neither.
    pub(crate) apart: Result<&'a Target, &'a str>,
}

/// A way to a summary and its cost.
struct Way<'a> {
    target: &'a Target,
    on: CompletionModel,
    cost: f64,
    words: String,
}

/// Chooses the cheaper way that fits; the error says why there is none.
pub(crate) fn choose(options: &Options<'_>, sizes: &Sizes, prices: &Prices) -> Result<Route, String> {
    let basis = Basis::of(options, prices);
    let prefix = options.prefix.map_err(str::to_owned).and_then(|target| on_prefix(target, sizes, &basis));
    let apart = options.apart.map_err(str::to_owned).and_then(|target| on_its_own(target, sizes, &basis));
    let (way, reason) = match (prefix, apart) {
        (Ok(prefix), Ok(apart)) => {
            // At equal cost, as with a model on this machine, a warm cache is the faster way.
            let is_prefix = if sizes.is_cache_warm { prefix.cost <= apart.cost } else { prefix.cost < apart.cost };
            let (way, other) = if is_prefix { (prefix, apart) } else { (apart, prefix) };
            let reason = format!(
                "{} costs {}, {} {}{}",
                way.words,
                basis.show(way.cost),
                other.words,
                basis.show(other.cost),
                basis.note
            );
            (way, reason)
        }
        (Ok(way), Err(why)) | (Err(why), Ok(way)) => {
            let reason = format!("{} costs {}; no other way: {why}{}", way.words, basis.show(way.cost), basis.note);
            (way, reason)
        }
        (Err(prefix), Err(apart)) if prefix == apart => return Err(prefix),
        (Err(prefix), Err(apart)) => return Err(format!("{apart}; on the live prefix: {prefix}")),
    };
    Ok(Route { model: way.on, name: way.target.model.clone(), window: way.target.window, reason })
}

fn on_prefix<'a>(target: &'a Target, sizes: &Sizes, basis: &Basis) -> Result<Way<'a>, String> {
    let (prefix, summary) = (sizes.prefix, sizes.summary);
    if prefix == 0 {
        return Err("there is no live request".to_owned());
    }
    let whole = prefix.saturating_add(INSTRUCTION_TOKENS).saturating_add(summary);
    if target.window > 0 && whole > target.window {
        return Err(format!("{} needs {whole} tokens of a window of {}", target.model, target.window));
    }
    let price = basis.main.at(prefix);
    let share = if sizes.is_cache_warm { price.read } else { price.write };
    let cost =
        price.input * (share * prefix as f64 + price.write * INSTRUCTION_TOKENS as f64) + price.output * summary as f64;
    let cache = if sizes.is_cache_warm { "warm" } else { "cold" };
    let words = format!("{} on its live prefix ({prefix} tokens, cache {cache}, {summary} written)", target.model);
    Ok(Way { target, on: CompletionModel::MainOnPrefix, cost, words })
}

fn on_its_own<'a>(target: &'a Target, sizes: &Sizes, basis: &Basis) -> Result<Way<'a>, String> {
    let (material, summary) = (sizes.material, sizes.summary);
    let prompt = material.saturating_add(INSTRUCTION_TOKENS);
    let room = chunk::room(target.window);
    let mut read = prompt;
    let mut written = summary;
    let mut pieces = String::new();
    if target.window > 0 && prompt > room {
        let parts = material.div_ceil(room.saturating_sub(INSTRUCTION_TOKENS).max(1));
        if parts > chunk::PARTS_MAX as u64 {
            let model = &target.model;
            return Err(format!(
                "{model} has a window of {}, too small for {material} tokens in pieces",
                target.window
            ));
        }
        let notes = material / NOTES_SHARE;
        read = prompt.saturating_add(notes);
        written = summary.saturating_add(notes);
        pieces = format!(" in {parts} pieces");
    }
    let price = basis.apart.at(if pieces.is_empty() { prompt } else { room });
    let cost = price.input * read as f64 + price.output * written as f64;
    let words = format!("{} apart ({read} tokens read{pieces}, {written} written)", target.model);
    Ok(Way { target, on: target.on, cost, words })
}

/// The prices that the ways are compared by.
struct Basis {
    main: Price,
    apart: Price,
    is_dollars: bool,
    note: String,
}

impl Basis {
    fn of(options: &Options<'_>, prices: &Prices) -> Basis {
        let find = |target: Result<&Target, &str>| {
            let target = target.ok()?;
            let free = Price { input: 0.0, output: 0.0, ..UNKNOWN };
            // A model on this machine costs nothing.
            prices.find(&target.model).copied().or_else(|| target.is_loopback().then_some(free))
        };
        let is_same = matches!((options.prefix, options.apart), (Ok(a), Ok(b)) if a.model == b.model);
        let share = if is_same { 1.0 } else { OTHER_MODEL_SHARE };
        let scaled = |price: Price, by: f64| Price { input: price.input * by, output: price.output * by, ..price };
        let dated = format!("; prices of {}", prices.date);
        let assumed = |who: &str| format!("; the price of {who} is not known, another model is taken to cost 1/4");
        match (find(options.prefix), find(options.apart)) {
            (Some(main), Some(apart)) => Basis { main, apart, is_dollars: true, note: dated },
            (None, Some(apart)) => {
                let note = if options.prefix.is_ok() { assumed("the main model") } else { dated };
                Basis { main: scaled(apart, 1.0 / share), apart, is_dollars: true, note }
            }
            (Some(main), None) => {
                let note = if options.apart.is_ok() { assumed("the other model") } else { dated };
                Basis { main, apart: scaled(main, share), is_dollars: true, note }
            }
            (None, None) => {
                let note = "; prices are not known: counted in input tokens of the main model, an answer's token as 5, a \
                            cached one as 1/10, another model as 1/4";
                Basis { main: UNKNOWN, apart: scaled(UNKNOWN, share), is_dollars: false, note: note.to_owned() }
            }
        }
    }

    fn show(&self, cost: f64) -> String {
        if self.is_dollars { format!("${:.4}", cost / 1_000_000.0) } else { format!("{cost:.0} units") }
    }
}

#[cfg(test)]
#[path = "route/tests.rs"]
mod tests;
