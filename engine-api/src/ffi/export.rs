//! The two macros by which a library becomes a plugin.

/// Makes a library the plugin of one engine.
///
/// `new` is a path to `fn(&serde_json::Value) -> Result<impl ContextEngine, EngineError>`; the value holds the user's
/// settings of this engine. The crate needs `crate-type = ["cdylib"]` and no `unsafe` of its own.
///
/// ```
/// # use engine_api::*;
/// # struct Mine;
/// # impl ContextEngine for Mine {
/// #     fn info(&self) -> EngineInfo { EngineInfo::new("mine", "0.1.0", "") }
/// #     fn open_session(&self, _: &dyn HostServices, _: &SessionStart) -> Result<Box<dyn EngineSession>, EngineError> {
/// #         Err(EngineError::unsupported("this")) } }
/// fn new(_settings: &json::Value) -> Result<Mine, EngineError> {
///     Ok(Mine)
/// }
/// export_engine!(name = "mine", new = crate::new);
/// # fn main() {}
/// ```
// `crate` is meant: the module that this expands to stands at the root of the engine's crate.
#[allow(clippy::crate_in_macro_def)]
#[macro_export]
macro_rules! export_engine {
    (name = $name:literal, new = $new:path $(,)?) => {
        #[doc(hidden)]
        mod __context_engine_register {
            pub fn register(registrar: &mut $crate::Registrar) {
                registrar.register_context_engine($name, $new);
            }
        }
        $crate::export_plugin!(name = $name, register = crate::__context_engine_register::register);
    };
}

/// Makes a library a plugin that registers one or more engines.
///
/// `register` is a path to `fn(&mut Registrar)`, which calls
/// [`register_context_engine`](crate::Registrar::register_context_engine) once for each.
#[macro_export]
macro_rules! export_plugin {
    (name = $name:literal, register = $register:path $(,)?) => {
        #[doc(hidden)]
        mod __context_engine_export {
            use $crate::__private::{CheckTypeLayout, LibHeader, RStr, RString, RootModuleResult};
            extern "C" fn info() -> RString {
                let panic = if cfg!(panic = "abort") { "abort" } else { "unwind" };
                $crate::__private::library_info($name, env!("CARGO_PKG_VERSION"), panic)
            }
            extern "C" fn create(
                name: RStr<'_>,
                settings: RStr<'_>,
            ) -> $crate::__private::RawResult<$crate::__private::EngineBox> {
                $crate::__private::create_engine($register, name, settings)
            }
            extern "C" fn engines() -> RString {
                $crate::__private::engine_names($register)
            }
            fn module() -> $crate::__private::EngineModRef {
                $crate::__private::module(info, create, engines)
            }
            extern "C" fn erased() -> RootModuleResult {
                $crate::__private::call_root_module_loader(module)
            }
            // What abi_stable's own export attribute emits, without asking the engine to depend on abi_stable.
            #[no_mangle]
            #[allow(non_upper_case_globals)]
            pub static _1as_0lib_1header_0root_bmodule_bloader: LibHeader =
                // SAFETY: `erased` returns the root module through abi_stable's own loader, and the layout that the header
                // carries is that of the module's type.
                unsafe {
                    LibHeader::from_constructor::<$crate::__private::EngineModRef>(erased, CheckTypeLayout::Yes)
                };

            #[no_mangle]
            #[cfg_attr(
                any(target_os = "linux", target_os = "android", target_os = "freebsd"),
                link_section = ".ctxengine"
            )]
            #[cfg_attr(windows, link_section = ".ctxeng")]
            #[cfg_attr(target_vendor = "apple", link_section = "__DATA,__ctxengine")]
            #[used]
            pub static CONTEXT_ENGINE_NOTE: [u8; $crate::__private::NOTE_LEN] =
                $crate::__private::note($name, env!("CARGO_PKG_VERSION"), $crate::API_VERSION, cfg!(panic = "abort"));
        }
    };
}
