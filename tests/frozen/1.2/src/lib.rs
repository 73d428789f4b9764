//! A small context engine on the raw traits of engine API 1.2, as a library built later would be: for the tests of the loader.
//!
//! It keeps the leading system messages and the newest message, and puts one summary for the rest.

mod ffi;

use abi_stable::erased_types::TD_Opaque;
use abi_stable::library::{__call_root_module_loader, CheckTypeLayout, LibHeader, RootModuleResult};
use abi_stable::prefix_type::PrefixTypeTrait;
use abi_stable::std_types::{RResult, RSlice, RStr, RString, RVec};
use ffi::{
    unsupported, EngineBox, EngineMod, EngineModRef, RawConversation, RawEngine, RawError, RawPlan, RawResult,
    RawSession, RawSpan, RawStep, ServicesRef, SessionBox,
};
use std::sync::atomic::{AtomicU64, Ordering};

const NAME: &str = "newer";
const VERSION: &str = "0.1.0";
const ENGINE_API: &str = env!("CARGO_PKG_VERSION");

const KEEP: u32 = 0;
const SUMMARY: u32 = 2;
const SYSTEM: u32 = 0;
const NOTHING_TO_COMPACT: u32 = 10;

struct Engine;

impl RawEngine for Engine {
    fn info(&self) -> RString {
        format!(
            "{{\"name\":\"{}\",\"version\":\"{}\",\"description\":\"built for engine API {}\"}}",
            NAME, VERSION, ENGINE_API
        )
        .into()
    }
    fn open_session(&self, _services: ServicesRef<'_>, _start_json: RStr<'_>) -> RawResult<SessionBox> {
        RResult::ROk(SessionBox::from_value(Session::default(), TD_Opaque))
    }
    fn tool_schemas(&self) -> RawResult<RString> {
        let text = format!(
            "[{{\"name\":\"{}_version\",\"description\":\"says what it was built for\",\"parameters\":{{\"type\":\"object\"}}}}]",
            NAME
        );
        RResult::ROk(text.into())
    }
    fn check_config(&self, _settings_json: RStr<'_>) -> RawResult<RString> {
        RResult::ROk("[]".into())
    }
    fn status(&self) -> RawResult<RString> {
        RResult::ROk("null".into())
    }
    fn shutdown(&self) -> RawResult<()> {
        RResult::ROk(())
    }
    fn self_test(&self, services: ServicesRef<'_>) -> RawResult<RString> {
        RResult::ROk(format!("newer is well; metric kept: {}", services.metric("self_test".into(), 1.0)).into())
    }
    fn warm_up(&self) -> RawResult<()> {
        RResult::ROk(())
    }
}

#[derive(Default)]
struct Session {
    plans: AtomicU64,
}

fn step(op: u32, first: u64, last: u64) -> RawStep {
    RawStep {
        op,
        kind: 0,
        role: 0,
        part: 0,
        depth: 0,
        r0: 0,
        first,
        last,
        text: RString::new(),
        reason: RString::new(),
        covers: RVec::new(),
        nodes: RVec::new(),
    }
}

impl RawSession for Session {
    fn compress(
        &self,
        services: ServicesRef<'_>,
        conversation: RawConversation<'_>,
        _request_json: RStr<'_>,
    ) -> RawResult<RawPlan> {
        let head = conversation.messages.iter().take_while(|message| message.role == SYSTEM).count() as u64;
        let last = (conversation.messages.len() as u64).saturating_sub(1);
        if last <= head {
            return RResult::RErr(RawError { code: NOTHING_TO_COMPACT, ..unsupported("so short a conversation") });
        }
        self.plans.fetch_add(1, Ordering::Relaxed);
        let text = format!("{} summary of {} messages", NAME, last - head);
        // A call back into the host from every plan, so that the services of another version are really used.
        let _ = services.count_tokens(text.as_str().into());
        let mut steps = RVec::new();
        if head > 0 {
            steps.push(step(KEEP, 0, head - 1));
        }
        let covers = vec![RawSpan { first: head, last: last - 1 }];
        steps.push(RawStep { text: text.into(), covers: covers.into(), ..step(SUMMARY, 0, 0) });
        steps.push(step(KEEP, last, last));
        RResult::ROk(RawPlan { base_revision: conversation.revision, steps, report: "{}".into() })
    }
    fn prune_tool_results(&self, _: ServicesRef<'_>, _: RawConversation<'_>, _: RStr<'_>) -> RawResult<RawPlan> {
        RResult::RErr(unsupported("prune_tool_results"))
    }
    fn select_context(&self, _: ServicesRef<'_>, _: RawConversation<'_>, _: RStr<'_>) -> RawResult<RawPlan> {
        RResult::RErr(unsupported("select_context"))
    }
    fn should_compress(&self, _: RStr<'_>) -> RawResult<RString> {
        RResult::ROk("{\"host_decides\":true}".into())
    }
    fn should_compress_preflight(&self, _: RawConversation<'_>, _: RStr<'_>) -> RawResult<RString> {
        RResult::ROk("{\"host_decides\":true}".into())
    }
    fn should_defer_preflight(&self, _: RStr<'_>) -> RawResult<bool> {
        RResult::ROk(false)
    }
    fn has_content_to_compress(&self, conversation: RawConversation<'_>) -> RawResult<bool> {
        RResult::ROk(conversation.messages.len() > 2)
    }
    fn ingest(&self, _: ServicesRef<'_>, _: RawConversation<'_>, _: u64) -> RawResult<()> {
        RResult::ROk(())
    }
    fn update_from_response(&self, _: RStr<'_>) -> RawResult<()> {
        RResult::ROk(())
    }
    fn update_model(&self, _: RStr<'_>) -> RawResult<()> {
        RResult::ROk(())
    }
    fn on_session_start(&self, _: ServicesRef<'_>, _: RStr<'_>) -> RawResult<()> {
        RResult::ROk(())
    }
    fn on_lifecycle(&self, _: ServicesRef<'_>, _: RawConversation<'_>, _: RStr<'_>) -> RawResult<()> {
        RResult::ROk(())
    }
    fn carry_over(&self, _: ServicesRef<'_>, _: RStr<'_>) -> RawResult<()> {
        RResult::ROk(())
    }
    fn on_turn_complete(&self, _: ServicesRef<'_>, _: RawConversation<'_>, _: RStr<'_>) -> RawResult<()> {
        RResult::ROk(())
    }
    fn plan_result(&self, _: RStr<'_>) -> RawResult<()> {
        RResult::ROk(())
    }
    fn pending(&self) -> RawResult<RString> {
        RResult::ROk("null".into())
    }
    fn maintain(&self, _: ServicesRef<'_>, _: RawConversation<'_>, _: u64) -> RawResult<bool> {
        RResult::ROk(false)
    }
    fn handle_tool_call(
        &self,
        services: ServicesRef<'_>,
        _: RawConversation<'_>,
        name: RStr<'_>,
        _: RStr<'_>,
    ) -> RawResult<RString> {
        let tokens = services.count_tokens(name);
        let host = services.describe("its tools".into());
        RResult::ROk(format!("{} was built for engine API {}; {} tokens; {}", NAME, ENGINE_API, tokens, host).into())
    }
    fn status(&self) -> RawResult<RString> {
        RResult::ROk(format!("{{\"compression_count\":{}}}", self.plans.load(Ordering::Relaxed)).into())
    }
    fn export_state(&self) -> RawResult<RVec<u8>> {
        RResult::ROk(self.plans.load(Ordering::Relaxed).to_le_bytes().to_vec().into())
    }
    fn import_state(&self, state: RSlice<'_, u8>) -> RawResult<()> {
        let mut bytes = [0u8; 8];
        for (to, from) in bytes.iter_mut().zip(state.iter()) {
            *to = *from;
        }
        self.plans.store(u64::from_le_bytes(bytes), Ordering::Relaxed);
        RResult::ROk(())
    }
    fn subagent(&self, _event_json: RStr<'_>) -> RawResult<()> {
        RResult::ROk(())
    }
    fn control(&self, services: ServicesRef<'_>, name: RStr<'_>, _arguments_json: RStr<'_>) -> RawResult<RString> {
        RResult::ROk(format!("newer ran {}; {}", name, services.describe("commands".into())).into())
    }
    fn explain(&self, message_id: u64) -> RawResult<RString> {
        RResult::ROk(format!("message {} is a message", message_id).into())
    }
}

extern "C" fn info() -> RString {
    format!(
        "{{\"name\":\"{}\",\"version\":\"{}\",\"engine_api\":\"{}\",\"panic\":\"unwind\"}}",
        NAME, VERSION, ENGINE_API
    )
    .into()
}

extern "C" fn create(_name: RStr<'_>, _settings_json: RStr<'_>) -> RawResult<EngineBox> {
    RResult::ROk(EngineBox::from_value(Engine, TD_Opaque))
}

extern "C" fn engines() -> RString {
    format!("[\"{}\"]", NAME).into()
}

extern "C" fn build() -> RString {
    "by hand".into()
}

fn module() -> EngineModRef {
    EngineMod { info, create, engines, build }.leak_into_prefix()
}

extern "C" fn erased() -> RootModuleResult {
    __call_root_module_loader(module)
}

#[no_mangle]
#[allow(non_upper_case_globals)]
pub static _1as_0lib_1header_0root_bmodule_bloader: LibHeader =
    // SAFETY: `erased` returns the root module through abi_stable's own loader, and the layout that the header carries is
    // that of the module's type.
    unsafe { LibHeader::from_constructor::<EngineModRef>(erased, CheckTypeLayout::Yes) };

const NOTE_LEN: usize = 512;

const fn put(mut state: ([u8; NOTE_LEN], usize), text: &str) -> ([u8; NOTE_LEN], usize) {
    let bytes = text.as_bytes();
    let mut index = 0;
    while index < bytes.len() && state.1 < NOTE_LEN - 1 {
        state.0[state.1] = bytes[index];
        state.1 += 1;
        index += 1;
    }
    state
}

const fn note() -> [u8; NOTE_LEN] {
    let mut state = ([0u8; NOTE_LEN], 0);
    state = put(state, "CTXENGINE/1\nname=");
    state = put(state, NAME);
    state = put(state, "\nversion=");
    state = put(state, VERSION);
    state = put(state, "\nengine_api=");
    state = put(state, ENGINE_API);
    put(state, "\npanic=unwind\n").0
}

#[no_mangle]
#[cfg_attr(any(target_os = "linux", target_os = "android", target_os = "freebsd"), link_section = ".ctxengine")]
#[cfg_attr(windows, link_section = ".ctxeng")]
#[cfg_attr(target_vendor = "apple", link_section = "__DATA,__ctxengine")]
#[used]
pub static CONTEXT_ENGINE_NOTE: [u8; NOTE_LEN] = note();
