//! Where the program works: its settings, its home folder, its plugins folders.

use crate::args::Global;
use crate::ui::Ui;
use host_config::{Config, Diagnostic, Loaded, Located, Severity};
use host_registry::{Registry, Setup};
use std::path::{Path, PathBuf};

/// Names the plugins folders, as a list of paths.
pub(crate) const PLUGINS_VARIABLE: &str = "PALIMPSEST_PLUGINS";
/// Name of a plugins folder in the current and in the home folder.
const PLUGINS_FOLDER: &str = "plugins";
/// Warnings about the settings that a command shows; `config validate` shows all.
const WARNINGS_MAX: usize = 5;

/// Where the program works.
pub(crate) struct Place {
    pub(crate) config: Config,
    pub(crate) diagnostics: Vec<Diagnostic>,
    pub(crate) located: Located,
    pub(crate) home: PathBuf,
    /// Plugins folders in search order.
    pub(crate) roots: Vec<PathBuf>,
    /// The one of them that plugins are installed into.
    pub(crate) install_root: PathBuf,
}

impl Place {
    /// Finds settings and folders, and warns of settings that are not what the file says.
    pub(crate) fn open(global: &Global, ui: &Ui) -> Place {
        let place = Place::find(global);
        let warnings: Vec<&Diagnostic> =
            place.diagnostics.iter().filter(|one| one.severity >= Severity::Warning).collect();
        for diagnostic in warnings.iter().take(WARNINGS_MAX) {
            ui.warn(&diagnostic.to_string());
        }
        if warnings.len() > WARNINGS_MAX {
            let rest = warnings.len() - WARNINGS_MAX;
            ui.warn(&format!("{rest} more remarks about the settings; `palimpsest config validate` prints all"));
        }
        place
    }

    /// Finds settings and folders, and says nothing.
    pub(crate) fn find(global: &Global) -> Place {
        // A current folder that was removed still lets absolute paths work.
        let cwd = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
        let env = |name: &str| match (&global.home, name) {
            (Some(home), host_config::HOME_VARIABLE) => Some(home.to_string_lossy().into_owned()),
            _ => std::env::var(name).ok(),
        };
        let home = cwd.join(global.home.clone().unwrap_or_else(|| host_config::home_dir(&env)));
        let located = host_config::locate(global.config.as_deref(), &env, &cwd);
        let Loaded { config, diagnostics } = host_config::load(&located);
        let (roots, install_root) = plugin_folders(&global.plugins, std::env::var_os(PLUGINS_VARIABLE), &cwd, &home);
        Place { config, diagnostics, located, home, roots, install_root }
    }

    /// Looks for engines.
    pub(crate) fn registry(&self) -> Registry {
        Registry::open(Setup {
            roots: self.roots.clone(),
            home: self.home.clone(),
            enabled: self.config.plugins.enabled.clone(),
            disabled: self.config.plugins.disabled.clone(),
            runner: host_registry::own_program(),
        })
    }

    /// Returns the settings file, or where a new one belongs.
    pub(crate) fn config_path(&self) -> PathBuf {
        self.located.path.clone().unwrap_or_else(|| self.home.join(host_config::FILE_NAME))
    }

    /// Returns a model's context window and whether nobody stated it.
    pub(crate) fn context_length(&self, asked: Option<u64>, model: &str) -> (u64, bool) {
        match asked.or(self.config.model.context_length) {
            Some(length) => (length, false),
            None => (host_config::codex::assumed_window(model, &self.config.model.provider), true),
        }
    }
}

/// Returns the folders to search, and the one to install into.
fn plugin_folders(
    asked: &[PathBuf],
    variable: Option<std::ffi::OsString>,
    cwd: &Path,
    home: &Path,
) -> (Vec<PathBuf>, PathBuf) {
    let in_home = home.join(PLUGINS_FOLDER);
    let stated: Vec<PathBuf> = if asked.is_empty() {
        let paths = variable.map(|paths| std::env::split_paths(&paths).collect::<Vec<_>>()).unwrap_or_default();
        paths.into_iter().filter(|path| !path.as_os_str().is_empty()).collect()
    } else {
        asked.to_vec()
    };
    if !stated.is_empty() {
        let roots: Vec<PathBuf> = stated.iter().map(|path| cwd.join(path)).collect();
        let first = roots.first().cloned().unwrap_or(in_home);
        return (roots, first);
    }
    let here = Some(cwd.join(PLUGINS_FOLDER)).filter(|path| path.is_dir());
    // What a user installs is for all projects, so it does not go into the project's folder.
    (here.into_iter().chain([in_home.clone()]).collect(), in_home)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugin_folders_are_the_stated_ones_or_the_usual_ones() {
        let folder = tempfile::tempdir().unwrap();
        let (cwd, home) = (folder.path().join("work"), folder.path().join("home"));
        let found = |asked: &[&str], variable: Option<&str>| {
            let asked: Vec<PathBuf> = asked.iter().map(PathBuf::from).collect();
            plugin_folders(&asked, variable.map(Into::into), &cwd, &home)
        };
        assert_eq!(found(&[], None), (vec![home.join("plugins")], home.join("plugins")));
        assert_eq!(found(&[], Some("")), (vec![home.join("plugins")], home.join("plugins")));
        std::fs::create_dir_all(cwd.join("plugins")).unwrap();
        assert_eq!(found(&[], None), (vec![cwd.join("plugins"), home.join("plugins")], home.join("plugins")));
        let list = std::env::join_paths(["a", "b"]).unwrap();
        assert_eq!(found(&[], list.to_str()), (vec![cwd.join("a"), cwd.join("b")], cwd.join("a")));
        assert_eq!(found(&["c"], list.to_str()), (vec![cwd.join("c")], cwd.join("c")));
    }
}
