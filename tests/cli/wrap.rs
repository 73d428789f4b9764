//! The settings of agents: pointed at the gateway, and back as they were, byte for byte.

use crate::{env, json, run};
use std::path::PathBuf;
use support::env::{Outcome, TestEnv};

/// A client's settings file in a test's home, and what runs with it.
struct Wrapped {
    env: TestEnv,
    client: &'static str,
    file: PathBuf,
}

impl Wrapped {
    fn new(client: &'static str, name: &str, text: Option<&str>) -> Wrapped {
        let env = env();
        let file = env.work().join("settings").join(name);
        if let Some(text) = text {
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, text).unwrap();
        }
        Wrapped { env, client, file }
    }

    fn run(&self, command: &str) -> Outcome {
        let settings = self.env.work().join("settings");
        let variables = [
            ("CODEX_HOME", settings.clone()),
            ("CLAUDE_CONFIG_DIR", settings.clone()),
            ("HERMES_HOME", settings.clone()),
            ("XDG_CONFIG_HOME", settings),
        ];
        let mut program = self.env.command();
        program.args([command, self.client]);
        for (name, value) in variables {
            program.env(name, value);
        }
        self.env.wait(program, Vec::new()).expect("the program can be started")
    }

    fn text(&self) -> Option<String> {
        std::fs::read_to_string(&self.file).ok()
    }

    /// Wraps and unwraps; what stood there must stand there again.
    fn there_and_back(&self, expected: &str) {
        let before = self.text();
        self.run("wrap").success();
        let wrapped = self.text().unwrap();
        assert!(wrapped.contains(expected), "{}: {wrapped}", self.client);
        assert!(self.run("wrap").success().contains("nothing was changed"));
        assert_eq!(self.text().unwrap(), wrapped);
        self.run("unwrap").success();
        assert_eq!(self.text(), before, "{}", self.client);
        let complaint = self.run("unwrap").failure(1);
        assert!(complaint.contains("is not wrapped"), "{complaint}");
    }
}

#[test]
fn settings_come_back_byte_for_byte_whatever_they_look_like() {
    let url = "http://127.0.0.1:8484";
    for text in [
        None,
        Some(""),
        Some("model = \"gpt-5\" # mine\n\n[analytics]\nenabled = false"),
        Some("openai_base_url = \"https://proxy.example/v1\"  # the old one\r\n"),
        Some("model_provider = \"x\"\n[model_providers.x]\nname = \"X\"\nbase_url = \"https://x.example/v1\"\n"),
    ] {
        Wrapped::new("codex", "config.toml", text).there_and_back(&format!("\"{url}/v1\""));
    }
    for text in
        [None, Some(""), Some("{}"), Some("{\n  // mine\n  \"env\": {\"A\": \"b\",},\n  \"model\": \"opus\"\n}\n")]
    {
        Wrapped::new("claude", "settings.json", text).there_and_back(&format!("\"ANTHROPIC_BASE_URL\": \"{url}\""));
    }
    for text in [
        None,
        Some(
            "{\"provider\":{\"mine\":{\"npm\":\"@ai-sdk/openai-compatible\",\"options\":{\"baseURL\":\"https://m.example/v1\"}}}}",
        ),
    ] {
        Wrapped::new("opencode", "opencode/opencode.json", text).there_and_back(&format!("\"{url}/v1\""));
    }
    for text in [Some("model:\n  default: m   # mine\n  base_url: https://h.example/v1\n"), Some("# empty\n"), None] {
        Wrapped::new("hermes", "config.yaml", text).there_and_back(&format!("{url}/v1"));
    }
}

#[test]
fn what_changed_since_stays_and_only_the_address_goes() {
    let wrapped = Wrapped::new("codex", "config.toml", Some("model = \"gpt-5\"\n"));
    wrapped.run("wrap").success();
    let text = wrapped.text().unwrap().replace("gpt-5", "gpt-6");
    std::fs::write(&wrapped.file, &text).unwrap();
    let told = wrapped.run("unwrap");
    assert!(told.stderr.contains("only the gateway's address"), "{}", told.stderr);
    assert_eq!(wrapped.text().unwrap(), "model = \"gpt-6\"\n");

    let wrapped =
        Wrapped::new("claude", "settings.json", Some("{\"env\": {\"ANTHROPIC_BASE_URL\": \"https://old.example\"}}"));
    wrapped.run("wrap").success();
    let text = wrapped.text().unwrap().replace("{\"env\"", "{\"model\": \"opus\", \"env\"");
    std::fs::write(&wrapped.file, &text).unwrap();
    wrapped.run("unwrap").success();
    let text = wrapped.text().unwrap();
    assert!(text.contains("https://old.example") && text.contains("opus"), "{text}");
}

#[test]
fn a_file_that_cannot_be_read_is_left_alone() {
    for (client, name, text) in [
        ("codex", "config.toml", "model = "),
        ("claude", "settings.json", "{\"env\": "),
        ("claude", "settings.json", "[]"),
    ] {
        let wrapped = Wrapped::new(client, name, Some(text));
        let complaint = wrapped.run("wrap").failure(1);
        assert!(complaint.contains("cannot be changed"), "{complaint}");
        assert_eq!(wrapped.text().unwrap(), text);
    }
}

#[test]
fn what_is_kept_is_for_its_owner_only_and_a_link_stays_a_link() {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let wrapped = Wrapped::new("claude", "settings.json", None);
        let real = wrapped.env.work().join("dotfiles.json");
        std::fs::write(&real, "{\"env\": {\"ANTHROPIC_API_KEY\": \"sk-secret\"}}").unwrap();
        std::fs::create_dir_all(wrapped.file.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(&real, &wrapped.file).unwrap();
        let out = wrapped.run("wrap");
        assert!(!out.stdout.contains("sk-secret") && !out.stderr.contains("sk-secret"));
        assert!(std::fs::symlink_metadata(&wrapped.file).unwrap().is_symlink());
        for entry in std::fs::read_dir(wrapped.env.home().join(".palimpsest/wrapped")).unwrap() {
            let path = entry.unwrap().path();
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o077, 0, "{}", path.display());
        }
        wrapped.run("unwrap").success();
        assert_eq!(std::fs::read_to_string(&real).unwrap(), "{\"env\": {\"ANTHROPIC_API_KEY\": \"sk-secret\"}}");
    }
}

#[test]
fn doctor_says_which_agents_are_routed() {
    let wrapped = Wrapped::new("codex", "config.toml", None);
    wrapped.run("wrap").success();
    let mut program = wrapped.env.command();
    program.args(["doctor", "--json"]).env("CODEX_HOME", wrapped.env.work().join("settings"));
    let out = wrapped.env.wait(program, Vec::new()).expect("the program can be started");
    let report = json(&out.stdout);
    let section = report["sections"].as_array().unwrap().iter().find(|section| section["name"] == "Clients").unwrap();
    assert!(section.to_string().contains("Codex is routed"), "{section}");
    assert!(run(&wrapped.env, &["wrap", "nobody"]).status.code() == Some(2));
}
