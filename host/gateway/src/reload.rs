//! New settings without a restart: on SIGHUP, and when the file has changed. Wrong ones leave the old ones in force.

use crate::app::App;
use crate::metrics::KindLabels;
use crate::setup::{Parts, Setup};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// How often the file is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Makes the parts of a gateway anew.
pub(crate) type Remake = Arc<dyn Fn() -> Result<Parts, String> + Send + Sync>;
/// Says something to the person who runs the gateway.
pub(crate) type Say = Arc<dyn Fn(&str) + Send + Sync>;

/// Watches for a change of the settings, for as long as the gateway runs.
pub(crate) async fn watch(app: Arc<App>, file: Option<PathBuf>, remake: Remake, say: Say) {
    let mut seen = file.as_deref().and_then(stamp);
    #[cfg(unix)]
    let mut hangups = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup()).ok();
    let mut ticks = tokio::time::interval(LOOK_EVERY);
    loop {
        #[cfg(unix)]
        let hung_up = async {
            match &mut hangups {
                Some(signal) => drop(signal.recv().await),
                None => std::future::pending().await,
            }
        };
        #[cfg(not(unix))]
        let hung_up = std::future::pending::<()>();
        let is_asked = tokio::select! {
            _ = ticks.tick() => false,
            () = hung_up => true,
        };
        let now = file.as_deref().and_then(stamp);
        if is_asked || now != seen {
            seen = now;
            reload(&app, &remake, &say).await;
        }
    }
}

async fn reload(app: &Arc<App>, remake: &Remake, say: &Say) {
    let remake = Arc::clone(remake);
    // Reading settings and looking for engines waits for files.
    let made = tokio::task::spawn_blocking(move || {
        remake().and_then(|parts| Setup::new(parts).map_err(|error| error.to_string()))
    });
    let made = made.await.unwrap_or_else(|error| Err(error.to_string()));
    let kind = match made {
        Ok((setup, problems)) => {
            if setup.settings.listen != app.setup().settings.listen {
                say("gateway.listen has changed; a restart makes it listen there");
            }
            for problem in problems {
                say(&problem);
            }
            app.set_setup(setup);
            say("the settings were read anew");
            "done"
        }
        Err(why) => {
            say(&format!("the settings stay as they were: {why}"));
            "refused"
        }
    };
    app.metrics.reloads.get_or_create(&KindLabels { kind }).inc();
}

/// Returns what changes when a file does.
fn stamp(path: &Path) -> Option<(SystemTime, u64)> {
    let about = std::fs::metadata(path).ok()?;
    Some((about.modified().ok()?, about.len()))
}
