//! The program `palimpsest`; everything is in the library, so that tests can build it too.
fn main() -> std::process::ExitCode {
    host_cli::main()
}
