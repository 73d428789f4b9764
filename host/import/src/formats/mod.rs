//! One reader a format. Each turns records into conversations and leaves what is not a message behind.

mod aider;
mod bodies;
mod claude_code;
mod cline;
mod codex;
mod copilot;
mod gemini;
mod hermes;
mod langchain;
mod opencode;
mod openhands;
mod pi;
mod recall;
mod swe_agent;
pub(crate) mod walk;

use crate::detect::Recognised;
use crate::input::Input;
use crate::{Context, Conversation, Format, ImportError};

/// Reads the file with the reader of its format. A reader of bodies may find another dialect than the one recognised.
pub(crate) fn read(
    recognised: Recognised,
    input: &mut Input<'_>,
    context: &mut Context<'_>,
) -> Result<(Format, Vec<Conversation>), ImportError> {
    let Recognised { format, is_lines } = recognised;
    let conversations = match format {
        Format::OpenAi | Format::Anthropic | Format::Responses | Format::ToolBench => {
            return bodies::read(format, is_lines, input, context);
        }
        Format::ClaudeCode | Format::HermesTrace => claude_code::read(input, context)?,
        Format::CodexRollout => codex::read(input, context)?,
        Format::Cline => cline::read(input, context)?,
        Format::OpenCodeExport => opencode::read(input, context)?,
        Format::OpenCodeEvents => opencode::read_events(input, context)?,
        Format::CopilotCli => copilot::read(input, context)?,
        Format::GeminiCli => gemini::read(input, context)?,
        Format::Pi => pi::read(input, context)?,
        Format::HermesExport => hermes::read_export(input, context)?,
        Format::ShareGpt => hermes::read_sharegpt(input, context)?,
        Format::Atif => hermes::read_atif(input, context)?,
        Format::HermesArchive => hermes::read_archive(input, context)?,
        Format::HermesSession => swe_agent::read_plain(input, context)?,
        Format::SweAgent => swe_agent::read(input, context)?,
        Format::MiniSwe => swe_agent::read_mini(input, context)?,
        Format::OpenHands => openhands::read(input, context)?,
        Format::OpenHandsSdk => openhands::read_sdk(input, context)?,
        Format::Aider => aider::read(input, context)?,
        Format::LangChain => langchain::read(input, context)?,
        Format::LongMemEval => recall::read_longmemeval(input, context)?,
        Format::LoCoMo => recall::read_locomo(input, context)?,
        Format::Beam => recall::read_beam(input, context)?,
        // Refused when the format was recognised: a database is no stream.
        Format::HermesState | Format::HermesLcm | Format::LosslessClaw => Vec::new(),
    };
    Ok((format, conversations))
}
