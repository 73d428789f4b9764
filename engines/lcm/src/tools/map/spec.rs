//! What a map is asked to do.

use super::super::args;
use super::json_schema::Schema;
use engine_api::json::{Value, json};

/// Tries of an item beyond the first.
const RETRIES_DEFAULT: u64 = 2;
const RETRIES_MAX: u64 = 5;
/// Completions of one item in an agentic map.
const STEPS_DEFAULT: u64 = 6;
const STEPS_MAX: u64 = 12;
/// Items asked about at once.
const CONCURRENCY_MAX: u64 = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// One completion an item.
    Plain,
    /// A bounded loop an item, in which the model may look things up.
    Agentic,
}

impl Kind {
    pub(super) fn tool(self) -> &'static str {
        match self {
            Kind::Plain => "llm_map",
            Kind::Agentic => "agentic_map",
        }
    }
}

/// A map's settings.
#[derive(Debug, Clone)]
pub(super) struct Spec {
    pub(super) kind: Kind,
    /// The job's id, where the call gave one.
    job: Option<String>,
    pub(super) prompt: String,
    pub(super) schema: Option<Value>,
    pub(super) retries: u64,
    pub(super) steps: u64,
    pub(super) concurrency: usize,
    pub(super) notes: Vec<String>,
}

/// A call begins a job or goes on with one.
pub(super) enum Given {
    New(Box<Spec>),
    Resume(String),
}

/// Arguments that give items.
pub(super) const ITEMS: [&str; 7] = ["items", "items_jsonl", "input", "jsonl", "query", "node_ids", "store_ids"];

impl Spec {
    pub(super) fn read(arguments: &Value, kind: Kind, concurrency: usize) -> Result<Given, String> {
        let job = super::job_of(arguments)?;
        let prompt = args::text(arguments, &["prompt", "prompt_template", "instruction"])?;
        let has_items = args::first(arguments, &ITEMS).is_some();
        if let (Some(job), true, false) = (&job, prompt.is_empty(), has_items) {
            return Ok(Given::Resume(job.clone()));
        }
        if prompt.is_empty() {
            return Err("prompt is required".to_string());
        }
        let schema = match args::first(arguments, &["schema", "output_schema", "outputSchema"]) {
            None => None,
            Some((_, Value::String(text))) => {
                Some(engine_api::json::from_str(text).map_err(|error| format!("schema is no JSON: {error}"))?)
            }
            Some((_, schema)) => Some(schema.clone()),
        };
        if let Some(schema) = &schema {
            Schema::new(schema).map_err(|why| format!("schema is not usable: {why}"))?;
        }
        let retries = args::whole(arguments, &["retries", "max_retries", "maxRetries"], RETRIES_DEFAULT)?;
        let steps = args::positive(arguments, &["max_steps", "maxSteps"], STEPS_DEFAULT, STEPS_MAX)?.value;
        let at_once = args::positive(arguments, &["concurrency"], concurrency as u64, CONCURRENCY_MAX)?.value;
        let mut notes = Vec::new();
        if !args::is_set(arguments, &["read_only", "readOnly"], true)? {
            notes.push("read_only=false changes nothing: only tools that look things up are offered".to_string());
        }
        Ok(Given::New(Box::new(Spec {
            kind,
            job,
            prompt: prompt.to_string(),
            schema,
            retries: retries.min(RETRIES_MAX),
            steps,
            concurrency: usize::try_from(at_once).unwrap_or(1).min(concurrency).max(1),
            notes,
        })))
    }

    /// What is stored of it.
    pub(super) fn head(&self) -> Value {
        json!({
            "tool": self.kind.tool(), "prompt": self.prompt, "schema": self.schema, "retries": self.retries,
            "steps": self.steps, "concurrency": self.concurrency
        })
    }

    /// Reads what was stored.
    pub(super) fn stored(head: &Value) -> Result<Spec, String> {
        let wrong = || "the job's file is damaged: job.json is not what was written".to_string();
        let kind = match head.get("tool").and_then(Value::as_str) {
            Some("llm_map") => Kind::Plain,
            Some("agentic_map") => Kind::Agentic,
            _ => return Err(wrong()),
        };
        let number = |key: &str, most: u64| head.get(key).and_then(Value::as_u64).map(|number| number.min(most));
        Ok(Spec {
            kind,
            job: None,
            prompt: head.get("prompt").and_then(Value::as_str).ok_or_else(wrong)?.to_string(),
            schema: head.get("schema").filter(|schema| !schema.is_null()).cloned(),
            retries: number("retries", RETRIES_MAX).unwrap_or(RETRIES_DEFAULT),
            steps: number("steps", STEPS_MAX).unwrap_or(STEPS_DEFAULT).max(1),
            concurrency: number("concurrency", CONCURRENCY_MAX).map_or(1, |count| count.max(1) as usize),
            notes: Vec::new(),
        })
    }

    /// The job's id: the given one, or one made of what is asked, so that the same call is the same job.
    pub(super) fn job_of(&self, items: &[Value]) -> String {
        if let Some(job) = &self.job {
            return job.clone();
        }
        let mut hash = Fnv::default();
        hash.eat(self.kind.tool().as_bytes());
        hash.eat(self.prompt.as_bytes());
        hash.eat(self.schema.as_ref().map(Value::to_string).unwrap_or_default().as_bytes());
        for item in items {
            hash.eat(item.to_string().as_bytes());
        }
        format!("job_{:016x}", hash.0)
    }
}

/// FNV-1a with 64 bits: it names jobs, and a job's prompt and items are compared before it is gone on with.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Fnv(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn eat(&mut self, bytes: &[u8]) {
        for byte in bytes.iter().chain(&[0xff]) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}
