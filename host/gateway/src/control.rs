//! What the gateway says of itself, and manual control over its sessions.

use crate::app::App;
use crate::body::Answer;
use crate::exchange::{Exchange, Trouble, plain};
use crate::metrics::METRICS_TYPE;
use crate::route::Own;
use bytes::Bytes;
use host_store::SessionFilter;
use host_wire::RefusalKind;
use hyper::Response;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// Sessions in one answer.
const LISTED_MAX: u64 = 200;
/// Receipts of a session in one answer.
const RECEIPTS_MAX: u64 = 20;

/// How a compaction is asked for.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Wish {
    focus: String,
    keep: u32,
    words: String,
}

/// Answers a request about the gateway.
pub(crate) async fn answer(mut exchange: Exchange, own: Own, body: Bytes) -> Response<Answer> {
    exchange.is_of("own", None);
    let app = Arc::clone(&exchange.app);
    let json_of = |value: &Value| plain(200, "application/json", value.to_string());
    let made = match own {
        Own::Live => Ok(plain(200, "text/plain; charset=utf-8", "ok\n")),
        Own::Ready if app.is_stopping() => Ok(plain(503, "text/plain; charset=utf-8", "stopping\n")),
        Own::Ready => {
            // A fallback is no reason not to serve, but one to be told of.
            let fallback = app.setup().fallback().map(|why| format!("engine fallback: {why}\n"));
            Ok(plain(200, "text/plain; charset=utf-8", format!("ready\n{}", fallback.unwrap_or_default())))
        }
        Own::Metrics => {
            let (sessions, resident) = app.sessions.counts();
            app.metrics.sessions.set(i64::try_from(sessions).unwrap_or(i64::MAX));
            app.metrics.resident_bytes.set(i64::try_from(resident).unwrap_or(i64::MAX));
            Ok(plain(200, METRICS_TYPE, app.metrics.text()))
        }
        Own::Sessions => blocking(move || sessions(&app)).await.map(|value| json_of(&value)),
        Own::Session(id) => blocking(move || session(&app, &id)).await.map(|value| json_of(&value)),
        Own::CompactSession(id) => compact(app, id, body).await.map(|value| json_of(&value)),
        Own::UndoSession(id) => undo(app, id).await.map(|value| json_of(&value)),
        Own::WrongMethod => Err(Trouble::new(RefusalKind::MethodNotAllowed, "this address takes another method")),
        Own::Unknown => Err(Trouble::new(RefusalKind::NotFound, "the gateway has nothing at this address")),
    };
    match made {
        Ok(mut response) => {
            exchange.sign(&mut response);
            response
        }
        Err(trouble) => exchange.refuse(&trouble),
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, Trouble> + Send + 'static) -> Result<T, Trouble> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(internal(&error)))
}

fn internal(error: &dyn std::error::Error) -> Trouble {
    Trouble::new(RefusalKind::Internal, error.to_string())
}

fn sessions(app: &App) -> Result<Value, Trouble> {
    let filter = SessionFilter { limit: LISTED_MAX, ..SessionFilter::default() };
    let (rows, total) = app.store.sessions(&filter).map_err(|error| internal(&error))?;
    Ok(json!({ "total": total, "sessions": rows }))
}

fn session(app: &App, id: &str) -> Result<Value, Trouble> {
    let row = app.store.find_session(id).map_err(|error| internal(&error))?.ok_or_else(|| unknown(id))?;
    let receipts = app.store.receipts(row.key, RECEIPTS_MAX).map_err(|error| internal(&error))?;
    let receipts: Vec<Value> = receipts.iter().filter_map(|receipt| serde_json::from_str(&receipt.json).ok()).collect();
    let views = app.store.views(row.key).map_err(|error| internal(&error))?;
    Ok(json!({ "session": row, "views": views.len(), "receipts": receipts }))
}

fn unknown(id: &str) -> Trouble {
    Trouble::new(RefusalKind::NotFound, format!("there is no session {id:?}"))
}

/// Compacts a session as `/compress` does: `{"focus": …, "keep": N}`, or `{"words": "here 3 --preview …"}` in its grammar.
async fn compact(app: Arc<App>, id: String, body: Bytes) -> Result<Value, Trouble> {
    let wish: Wish = if body.is_empty() {
        Wish::default()
    } else {
        serde_json::from_slice(&body).map_err(|error| Trouble::new(RefusalKind::BadRequest, error.to_string()))?
    };
    let manual = host_core::manual::read(&wish.words);
    if let Some(refused) = manual.refused.first() {
        return Err(Trouble::new(RefusalKind::BadRequest, refused.clone()));
    }
    let focus = if wish.focus.is_empty() { manual.focus } else { wish.focus };
    let keep = if wish.keep > 0 { wish.keep } else { manual.keep_exchanges.unwrap_or(0) };
    let slot = {
        let (app, id) = (Arc::clone(&app), id.clone());
        blocking(move || app.sessions.by_name(&app.store, &id).map_err(|error| internal(&error))).await?
    };
    let slot = slot.ok_or_else(|| unknown(&id))?;
    let mut guard = Arc::clone(&slot.conversation).lock_owned().await;
    let setup = app.setup();
    blocking(move || {
        let receipt = guard.compact_now(&app.store, &setup, None, &focus, keep).map_err(|error| internal(&error));
        slot.is_light_as(guard.is_light());
        let receipt = receipt?;
        serde_json::to_value(&receipt).map_err(|error| internal(&error))
    })
    .await
}

async fn undo(app: Arc<App>, id: String) -> Result<Value, Trouble> {
    let slot = {
        let (app, id) = (Arc::clone(&app), id.clone());
        blocking(move || app.sessions.by_name(&app.store, &id).map_err(|error| internal(&error))).await?
    };
    let slot = slot.ok_or_else(|| unknown(&id))?;
    let mut guard = Arc::clone(&slot.conversation).lock_owned().await;
    let setup = app.setup();
    blocking(move || {
        let undone = guard.undo(&app.store, &setup);
        slot.is_light_as(guard.is_light());
        undone.map_err(|error| Trouble::new(RefusalKind::BadRequest, error.to_string()))?;
        Ok(json!({ "session": id, "undone": true }))
    })
    .await
}
