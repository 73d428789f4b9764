//! `gateway`: runs the proxy until it is told to stop.

use crate::args::{GatewayArgs, Global};
use crate::commands::Status;
use crate::error::CliError;
use crate::place::Place;
use crate::shelf;
use crate::ui::Ui;
use host_gateway::{Gateway, Parts};
use host_runtime::Subscriber;
use std::sync::Arc;
use tokio::sync::watch;

pub(crate) fn run(args: &GatewayArgs, global: &Global, ui: &Ui) -> Result<Status, CliError> {
    let place = Place::open(global, ui);
    let store = shelf::open(&place)?;
    let hooks = crate::told::hooks(&place, ui);
    let subscribers: Vec<Subscriber> = hooks.iter().map(|hooks| hooks.subscriber()).collect();
    let runtime = Gateway::runtime().map_err(|error| CliError::internal(error.to_string()))?;
    let settings_file = place.located.path.clone();
    let parts = parts_of(place, args, subscribers.clone());
    let gateway = runtime.block_on(Gateway::bind(parts, store)).map_err(|error| {
        CliError::user(error.to_string())
            .hint("`palimpsest config explain` shows the settings; --listen takes another address")
    })?;
    for problem in &gateway.problems {
        ui.warn(problem);
    }
    for line in gateway.caching() {
        ui.note(&line);
    }
    let address = gateway.address().map(|address| format!("http://{address}")).unwrap_or_default();
    if ui.is_json() {
        ui.json(&serde_json::json!({ "listening": address, "pid": std::process::id() }))?;
    } else {
        ui.out(&format!("listening on {address}\n"))?;
    }
    let (args, global) = (args.clone(), global.clone());
    let remake = move || {
        let place = Place::find(&global);
        match place.diagnostics.iter().find(|one| one.severity >= host_config::Severity::Error) {
            Some(fault) => Err(fault.to_string()),
            None => Ok(parts_of(place, &args, subscribers.clone())),
        }
    };
    let say = |line: &str| eprint_line(line);
    let is_drained = runtime.block_on(async {
        let (stop, stopping) = watch::channel(false);
        tokio::spawn(async move {
            asked_to_stop().await;
            let _ = stop.send(true);
        });
        gateway.serve(settings_file, Arc::new(remake), stopping, Arc::new(say)).await
    });
    // A thread that waits for a model is not waited for: what it would store is stored with the next request.
    runtime.shutdown_background();
    if let Some(hooks) = hooks {
        crate::told::drain(hooks, ui);
    }
    if !is_drained {
        ui.warn("some answers were cut off: they took longer than gateway.drain_seconds");
    }
    Ok(Status::Done)
}

fn parts_of(place: Place, args: &GatewayArgs, subscribers: Vec<Subscriber>) -> Parts {
    let registry = place.registry();
    let mut config = place.config;
    if let Some(mode) = args.mode {
        config.gateway.mode = mode.into();
    }
    if let Some(engine) = &args.engine {
        config.context.engine.clone_from(engine);
    }
    Parts {
        config,
        registry,
        home: place.home,
        listen: args.listen.clone(),
        upstream: args.upstream.clone(),
        env: |name| std::env::var(name).ok(),
        subscribers,
        counter: None,
    }
}

/// Waits for the signal of a service manager, or of a person at the keyboard.
async fn asked_to_stop() {
    let keyboard = tokio::signal::ctrl_c();
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = keyboard => {}
                _ = terminate.recv() => {}
            }
            return;
        }
    }
    let _ = keyboard.await;
}

/// Says something while the gateway runs; the way out of commands is not to be shared between threads.
fn eprint_line(line: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "note: {}", crate::safe::line(line));
}
