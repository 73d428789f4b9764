//! Entries of the settings: whom to tell, and how long to wait for it.

use crate::post::Address;
use serde_json::{Map, Value};
use std::time::Duration;

/// How long a hook may take if its entry does not say.
pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);
/// How long a hook may take at most.
pub const TIMEOUT_MAX: Duration = Duration::from_secs(60);
/// Hooks of one event; more are a mistake, and each costs its timeout.
const HOOKS_MAX: usize = 16;
/// Members that an entry may have.
const MEMBERS: [&str; 4] = ["command", "url", "timeout", "allow_remote"];

/// Whom to tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Whom {
    /// A program and its arguments.
    Command { program: String, arguments: Vec<String> },
    /// A web server.
    Url(Address),
}

/// One entry, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    pub(crate) whom: Whom,
    pub(crate) timeout: Duration,
}

impl Hook {
    /// Returns whom it tells, without arguments and paths, which may hold secrets.
    pub fn name(&self) -> String {
        match &self.whom {
            Whom::Command { program, .. } => format!("command {program}"),
            Whom::Url(address) => format!("url http://{}", address.authority),
        }
    }
}

/// Reads entries. What is not usable is left out, with one line that says why.
pub fn read(entries: &[Value]) -> (Vec<Hook>, Vec<String>) {
    let (mut hooks, mut problems) = (Vec::new(), Vec::new());
    for (entry, number) in entries.iter().zip(1..) {
        let mut remarks = Vec::new();
        match one(entry, &mut remarks) {
            Ok(_) if hooks.len() == HOOKS_MAX => {
                remarks.push(format!("it is passed over: at most {HOOKS_MAX} are told"))
            }
            Ok(hook) => hooks.push(hook),
            Err(why) => remarks.push(format!("it is passed over: {why}")),
        }
        problems.extend(remarks.into_iter().map(|remark| format!("hook {number}: {remark}")));
    }
    (hooks, problems)
}

fn one(entry: &Value, remarks: &mut Vec<String>) -> Result<Hook, String> {
    let members = entry.as_object().ok_or("it is no mapping with `command` or `url`")?;
    for name in members.keys().filter(|name| !MEMBERS.contains(&name.as_str())) {
        remarks.push(format!("{name:?} means nothing here; {} do", MEMBERS.join(", ")));
    }
    let whom = match (members.get("command"), members.get("url")) {
        (Some(command), None) => command_of(command)?,
        (None, Some(url)) => {
            let url = url.as_str().ok_or("`url` is a text")?;
            let allow_remote = members.get("allow_remote").is_some_and(|value| *value == Value::Bool(true));
            Whom::Url(Address::read(url, allow_remote)?)
        }
        (Some(_), Some(_)) => return Err("it has both `command` and `url`; make two entries".to_owned()),
        (None, None) => return Err("it has neither `command` nor `url`".to_owned()),
    };
    Ok(Hook { whom, timeout: timeout(members, remarks) })
}

fn command_of(command: &Value) -> Result<Whom, String> {
    let wrong = "`command` is a list of texts, as [notify-send, compacted]; no shell reads it";
    let words: Option<Vec<String>> =
        command.as_array().ok_or(wrong)?.iter().map(|word| word.as_str().map(str::to_owned)).collect();
    let mut words = words.ok_or(wrong)?.into_iter();
    let program = words.next().filter(|program| !program.is_empty()).ok_or("`command` names no program")?;
    let arguments: Vec<String> = words.collect();
    if arguments.iter().chain([&program]).any(|word| word.contains('\0')) {
        return Err("`command` has a NUL character".to_owned());
    }
    Ok(Whom::Command { program, arguments })
}

fn timeout(members: &Map<String, Value>, remarks: &mut Vec<String>) -> Duration {
    let Some(stated) = members.get("timeout") else { return TIMEOUT_DEFAULT };
    let seconds = stated.as_f64().filter(|seconds| seconds.is_finite() && *seconds > 0.0);
    let Some(seconds) = seconds else {
        remarks.push(format!("`timeout` is a number of seconds; {} s is taken", TIMEOUT_DEFAULT.as_secs()));
        return TIMEOUT_DEFAULT;
    };
    if seconds > TIMEOUT_MAX.as_secs_f64() {
        remarks.push(format!("`timeout` is at most {} s, which is taken", TIMEOUT_MAX.as_secs()));
        return TIMEOUT_MAX;
    }
    Duration::try_from_secs_f64(seconds).unwrap_or(TIMEOUT_DEFAULT)
}
