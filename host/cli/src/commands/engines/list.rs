//! `engines list`: every engine with its state, what its tools cost, and what is wrong with it.

use super::{effective, is_problem, tool_tokens};
use crate::commands::Status;
use crate::error::CliError;
use crate::place::Place;
use crate::safe;
use crate::ui::{Ui, bold, dim, green, yellow};
use crate::words::{counted, grouped, table};
use host_registry::{BUILTIN_NAME, Listing, State};
use host_tokens::Counter;
use serde::Serialize;
use serde_json::json;

/// One engine as it is listed.
#[derive(Debug, Serialize)]
struct Line<'a> {
    name: &'a str,
    version: &'a str,
    api: &'a str,
    state: &'static str,
    is_selected: bool,
    source: &'a str,
    description: &'a str,
    tools: Vec<Tool<'a>>,
    /// `None` where the tools are not known.
    tool_tokens: Option<u64>,
    why: &'a str,
    hint: &'a str,
    warnings: &'a [String],
}

#[derive(Debug, Serialize)]
struct Tool<'a> {
    name: &'a str,
    tokens: u64,
}

pub(super) fn run(strict: bool, place: &Place, ui: &Ui) -> Result<Status, CliError> {
    let chosen = chosen(place);
    let registry = place.registry();
    let listings = registry.list(chosen);
    let counter = Counter::for_model(&place.config.model.default);
    let lines: Vec<Line<'_>> = listings.iter().map(|one| line(one, &counter)).collect();
    let problems = listings.iter().filter(|one| is_problem(one.state)).count();
    let status = Status::failed_if(strict && problems > 0);
    let (runs, _) = effective(chosen, &listings);
    let notices = &registry.discovery().notices;
    if ui.is_json() {
        ui.json(&json!({
            "context_engine": chosen, "effective": runs, "engines": lines, "problems": problems, "notices": notices,
        }))?;
        return Ok(status);
    }
    ui.out(&text(&lines))?;
    if runs != chosen {
        let text = format!("context.engine is {chosen}, which cannot run: {runs} runs in its place");
        ui.out(&format!("{} {}\n", yellow("!"), safe::line(&text)))?;
    }
    for notice in notices {
        ui.out(&format!("{} {}\n", yellow("!"), safe::line(notice)))?;
    }
    Ok(status)
}

/// Returns the engine that the settings name.
pub(super) fn chosen(place: &Place) -> &str {
    let name = place.config.context.engine.trim();
    if name.is_empty() { BUILTIN_NAME } else { name }
}

fn line<'a>(one: &'a Listing, counter: &Counter) -> Line<'a> {
    let tools: Vec<Tool<'_>> =
        one.tools.iter().map(|tool| Tool { name: &tool.name, tokens: tool_tokens(counter, tool) }).collect();
    let are_tools_known = matches!(one.state, State::Ready | State::Selected);
    Line {
        name: &one.name,
        version: &one.version,
        api: &one.api,
        state: one.state.as_str(),
        is_selected: one.state == State::Selected,
        source: &one.source,
        description: &one.description,
        tool_tokens: are_tools_known.then(|| tools.iter().map(|tool| tool.tokens).sum()),
        tools,
        why: &one.why,
        hint: &one.hint,
        warnings: &one.warnings,
    }
}

fn text(lines: &[Line<'_>]) -> String {
    let or_dash = |text: &str| if text.is_empty() { "-".to_owned() } else { safe::line(text) };
    let rows = lines.iter().map(|line| {
        let mark = if line.is_selected { "*" } else { "" };
        let tools = line.tool_tokens.map_or("-".to_owned(), |_| grouped(line.tools.len() as u64));
        let tokens = line.tool_tokens.map_or("-".to_owned(), grouped);
        let (name, version) = (or_dash(line.name), or_dash(line.version));
        vec![
            mark.to_owned(),
            name,
            version,
            or_dash(line.api),
            line.state.to_owned(),
            or_dash(line.source),
            tools,
            tokens,
        ]
    });
    let header = ["", "ENGINE", "VERSION", "API", "STATE", "SOURCE", "TOOLS", "TOOL TOKENS"];
    let mut out = table(&header, rows.collect(), &[6, 7], 0);
    // The first line is the header; the chosen engine is the one that is marked.
    out = out
        .lines()
        .map(|line| if line.starts_with('*') { format!("{}\n", green(line)) } else { format!("{line}\n") })
        .collect();
    let problems: Vec<&Line<'_>> = lines.iter().filter(|line| !line.why.is_empty()).collect();
    if !problems.is_empty() {
        out.push_str(&format!("{}\n", bold(&format!("{}:", counted(problems.len() as u64, "problem")))));
    }
    for line in problems {
        out.push_str(&format!("  {} {}\n", yellow("!"), safe::line(&format!("{}: {}", line.name, line.why))));
        if !line.hint.is_empty() {
            out.push_str(&format!("    {}\n", dim(&format!("hint: {}", safe::line(line.hint)))));
        }
    }
    for line in lines {
        for warning in line.warnings {
            out.push_str(&format!("  {} {}\n", yellow("!"), safe::line(&format!("{}: {warning}", line.name))));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine_api::ToolSchema;
    use expect_test::expect;

    fn listing(name: &str, state: State, why: &str) -> Listing {
        Listing {
            name: name.to_owned(),
            version: "0.1.0".to_owned(),
            api: "1.1.0".to_owned(),
            state,
            source: format!("plugins/context_engine/{name}"),
            description: String::new(),
            tools: Vec::new(),
            why: why.to_owned(),
            hint: if why.is_empty() { String::new() } else { "build it again".to_owned() },
            warnings: Vec::new(),
        }
    }

    #[test]
    fn a_listing_shows_states_costs_and_causes() {
        let mut lcm = listing("lcm", State::Selected, "");
        lcm.tools = vec![ToolSchema::new("lcm_grep", "search the transcript", json!({"type": "object"}))];
        let mut bad = listing("bad\u{7}", State::Incompatible, "it was built for engine API 2.0.0");
        bad.version = String::new();
        let listings = [lcm, listing("compressor", State::Ready, ""), bad];
        let lines: Vec<Line<'_>> = listings.iter().map(|one| line(one, &Counter::rough())).collect();
        expect![[r#"
               ENGINE      VERSION  API    STATE         SOURCE                             TOOLS  TOOL TOKENS
            *  lcm         0.1.0    1.1.0  selected      plugins/context_engine/lcm             1           22
               compressor  0.1.0    1.1.0  ready         plugins/context_engine/compressor      0            0
               bad\u{7}    -        1.1.0  incompatible  plugins/context_engine/bad\u{7}        -            -
            1 problem:
              ! bad\u{7}: it was built for engine API 2.0.0
                hint: build it again
        "#]]
        .assert_eq(&anstream::adapter::strip_str(&text(&lines)).to_string());
    }

    #[test]
    fn what_runs_is_the_chosen_engine_or_the_built_in() {
        let listings =
            [listing("lcm", State::Untrusted, "nobody approved it"), listing("compressor", State::Ready, "")];
        let (runs, why) = effective("lcm", &listings);
        assert_eq!((runs, why.unwrap().why.as_str()), ("compressor", "nobody approved it"));
        let listings = [listing("lcm", State::Selected, "")];
        assert!(matches!(effective("lcm", &listings), ("lcm", None)));
    }
}
