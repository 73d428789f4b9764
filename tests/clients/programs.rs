//! The clients: where their programs are, how each is told where its provider is, and how it is run without a person.

use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Names the folder that `cargo xtask clients` installed into.
const FOLDER: &str = "PALIMPSEST_CLIENTS";
/// Makes an absent program a failure.
const REQUIRED: &str = "PALIMPSEST_REQUIRE_CLIENTS";
/// Longest time that a client may take for a task.
const RUN_TIME: Duration = Duration::from_secs(300);

/// An agent's program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Client {
    Codex,
    Claude,
    OpenCode,
    Hermes,
}

impl Client {
    fn program(self) -> &'static str {
        match self {
            Client::Codex => "node_modules/.bin/codex",
            Client::Claude => "node_modules/.bin/claude",
            Client::OpenCode => "node_modules/.bin/opencode",
            Client::Hermes => "hermes/bin/hermes",
        }
    }
}

/// Finds a client's program; says so where there is none.
pub(crate) fn find(client: Client) -> Option<PathBuf> {
    let folder = std::env::var_os(FOLDER).map(PathBuf::from).or_else(|| {
        // The test program lies in the target folder, as the clients do.
        let own = std::env::current_exe().ok()?;
        own.ancestors().map(|folder| folder.join("clients")).find(|folder| folder.is_dir())
    });
    let program = folder.map(|folder| folder.join(client.program())).filter(|program| program.exists());
    if program.is_none() {
        let what = format!("{client:?} is not installed; `cargo xtask clients` does it");
        assert!(std::env::var_os(REQUIRED).is_none(), "{what}");
        println!("SKIPPED: {what}");
    }
    program
}

/// A client's home and work folder.
pub(crate) struct Home {
    root: TempDir,
}

impl Home {
    pub(crate) fn new(client: Client) -> Home {
        let home = Home { root: tempfile::Builder::new().prefix("client").tempdir().unwrap() };
        for folder in ["home", "work", "settings"] {
            std::fs::create_dir_all(home.root.path().join(folder)).unwrap();
        }
        if client == Client::Codex || client == Client::Claude {
            let git = |arguments: &[&str]| {
                let _ = Command::new("git").args(arguments).current_dir(home.work()).output();
            };
            git(&["init", "-q", "."]);
        }
        home
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.root.path().join("work")
    }

    fn settings(&self) -> PathBuf {
        self.root.path().join("settings")
    }
}

/// Runs a client over a prompt and returns what it wrote.
pub(crate) fn run(
    program: &Path,
    client: Client,
    home: &Home,
    origin: &str,
    window: u64,
    prompt: &str,
    is_resumed: bool,
) -> String {
    let mut command = Command::new(program);
    let nodes = std::env::var_os("PATH").unwrap_or_default();
    command
        .current_dir(home.work())
        .env_clear()
        .env("PATH", nodes)
        .env("HOME", home.root.path().join("home"))
        .env("TERM", "xterm")
        .env("SHELL", "/bin/bash")
        .env("NO_PROXY", "127.0.0.1,localhost");
    match client {
        Client::Codex => codex(&mut command, home, origin, window, is_resumed),
        Client::Claude => claude(&mut command, home, origin, window, is_resumed),
        Client::OpenCode => opencode(&mut command, home, origin, window, is_resumed),
        Client::Hermes => hermes(&mut command, home, origin, window, is_resumed),
    }
    command.arg(prompt);
    finish(command, home, client)
}

fn codex(command: &mut Command, home: &Home, origin: &str, window: u64, is_resumed: bool) {
    // The built-in provider, moved: the only one for which Codex asks the provider to compact.
    let settings = format!(
        "model = \"test-model\"\nopenai_base_url = \"{origin}/v1\"\nmodel_context_window = {window}\n\
         approval_policy = \"never\"\nsandbox_mode = \"danger-full-access\"\ncheck_for_update_on_startup = false\n\
         [analytics]\nenabled = false\n"
    );
    std::fs::write(home.settings().join("config.toml"), settings).unwrap();
    command.env("CODEX_HOME", home.settings()).env("OPENAI_API_KEY", "sk-test").env("CODEX_API_KEY", "sk-test");
    command.args(["exec", "--json", "--skip-git-repo-check"]);
    if is_resumed {
        command.args(["resume", "--last"]);
    }
}

fn claude(command: &mut Command, home: &Home, origin: &str, window: u64, is_resumed: bool) {
    command
        .env("CLAUDE_CONFIG_DIR", home.settings())
        .env("ANTHROPIC_BASE_URL", origin)
        .env("ANTHROPIC_API_KEY", "sk-ant-test")
        .env("CLAUDE_CODE_AUTO_COMPACT_WINDOW", window.max(100_000).to_string())
        .env("IS_SANDBOX", "1");
    for switch in [
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
        "DISABLE_TELEMETRY",
        "DISABLE_ERROR_REPORTING",
        "DISABLE_AUTOUPDATER",
        "DISABLE_BUG_COMMAND",
    ] {
        command.env(switch, "1");
    }
    command.args(["-p", "--dangerously-skip-permissions", "--output-format", "stream-json", "--verbose"]);
    command.args(["--model", "claude-sonnet-4-6"]);
    if is_resumed {
        command.arg("--continue");
    }
}

fn opencode(command: &mut Command, home: &Home, origin: &str, window: u64, is_resumed: bool) {
    let folder = home.settings().join("opencode");
    std::fs::create_dir_all(&folder).unwrap();
    let settings = json!({
        "autoupdate": false, "share": "disabled", "snapshot": false, "lsp": false, "formatter": false,
        "model": "test/test-model", "small_model": "test/test-model",
        "permission": { "bash": "allow", "edit": "allow", "read": "allow" },
        "provider": { "test": {
            "npm": "@ai-sdk/openai-compatible", "name": "Test",
            "options": { "baseURL": format!("{origin}/v1"), "apiKey": "sk-test" },
            "models": { "test-model": { "name": "Test", "tool_call": true, "limit": { "context": window, "output": 8_000 } } },
        } },
    });
    std::fs::write(folder.join("opencode.json"), settings.to_string()).unwrap();
    let root = home.root.path();
    command
        .env("XDG_CONFIG_HOME", home.settings())
        .env("XDG_DATA_HOME", root.join("data"))
        .env("XDG_STATE_HOME", root.join("state"))
        .env("XDG_CACHE_HOME", root.join("cache"));
    for switch in ["OPENCODE_DISABLE_AUTOUPDATE", "OPENCODE_DISABLE_MODELS_FETCH", "OPENCODE_DISABLE_LSP_DOWNLOAD"] {
        command.env(switch, "1");
    }
    command.args(["run", "--format", "json", "--auto"]);
    if is_resumed {
        command.arg("-c");
    }
}

fn hermes(command: &mut Command, home: &Home, origin: &str, window: u64, is_resumed: bool) {
    let work = home.work().display().to_string();
    let settings = json!({
        "model": { "default": "test-model", "provider": "custom", "base_url": format!("{origin}/v1"), "api_key": "sk-test",
            // Its own estimate before a request runs ahead of what it is told.
            "context_length": window * 8 },
        "terminal": { "backend": "local", "cwd": work },
    });
    std::fs::write(home.settings().join("config.yaml"), settings.to_string()).unwrap();
    command.env("HERMES_HOME", home.settings()).env("OPENAI_API_KEY", "sk-test");
    command.args(["chat", "-Q", "--yolo", "--max-turns", "90"]);
    if is_resumed {
        command.arg("--continue");
    }
    command.arg("-q");
}

/// Waits for a client within its time, and returns what it wrote to both of its outputs.
fn finish(mut command: Command, home: &Home, client: Client) -> String {
    let files: Vec<PathBuf> = ["out", "err"].iter().map(|name| home.root.path().join(name)).collect();
    let to = |at: usize| std::fs::File::create(files.get(at).unwrap()).unwrap();
    let mut child = command.stdin(Stdio::null()).stdout(to(0)).stderr(to(1)).spawn().unwrap();
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break Some(status);
        }
        if started.elapsed() > RUN_TIME {
            let _ = child.kill();
            let _ = child.wait();
            break None;
        }
        std::thread::sleep(Duration::from_millis(100));
    };
    let text: String = files.iter().map(|file| std::fs::read_to_string(file).unwrap_or_default()).collect();
    let is_good = status.is_some_and(|status| status.success());
    if !is_good {
        println!("{client:?} ended with {status:?} after {} s", started.elapsed().as_secs());
    }
    text
}
