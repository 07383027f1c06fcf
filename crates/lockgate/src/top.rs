//! `top`: the figures of a running Lockgate on a terminal, each second anew; elsewhere plain rows.
//!
//! Asks over the admin socket. What is shown is a function of the last figures and of the keys, so
//! that it is tested without a terminal.

mod columns;
mod draw;
mod sample;
mod view;

use std::io::IsTerminal as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, channel, sync_channel};
use std::time::Duration;

use lockgate_net::threads;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};

use crate::admin_client::find;
use crate::cli::PrintFormat;
use crate::cli::top::TopOptions;
use crate::print::out;
use draw::Palette;
use sample::{Figures, TopSample};
use view::{Step, TopView};

/// The time between two questions.
const EVERY: Duration = Duration::from_secs(1);
/// The time for which a key is waited for before new figures are looked for.
const LOOK: Duration = Duration::from_millis(100);

/// Shows the figures until a key ends it, or once.
///
/// # Errors
/// When there is no Lockgate, or the terminal cannot be used.
pub(crate) fn run(options: &TopOptions) -> anyhow::Result<ExitCode> {
    let socket = find(&options.socket)?;
    let first = TopSample::ask(&socket)?;
    if options.output == PrintFormat::Json {
        out!("{:#}", first.into_json());
        return Ok(ExitCode::SUCCESS);
    }
    if options.once || !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        out!("{}", draw::plain(&first).trim_end());
        return Ok(ExitCode::SUCCESS);
    }
    let (send, figures) = sync_channel(1);
    let (end, ended) = channel();
    let asking = threads::start("top", {
        let socket = socket.clone();
        move || ask_each_second(&socket, &send, &ended)
    })?;
    let mut terminal = ratatui::try_init()?;
    let shown = show(&mut terminal, first, &figures);
    ratatui::restore();
    drop((end, figures));
    // It ends at once, or with the question that it waits for.
    drop(asking);
    shown?;
    Ok(ExitCode::SUCCESS)
}

/// Asks each second, until the other end is gone.
fn ask_each_second(
    socket: &Path,
    send: &SyncSender<anyhow::Result<TopSample>>,
    ended: &Receiver<()>,
) {
    while matches!(ended.recv_timeout(EVERY), Err(RecvTimeoutError::Timeout)) {
        if send.send(TopSample::ask(socket)).is_err() {
            return;
        }
    }
}

fn show(
    terminal: &mut DefaultTerminal,
    first: TopSample,
    samples: &Receiver<anyhow::Result<TopSample>>,
) -> anyhow::Result<()> {
    let palette = Palette::of_environment();
    let (mut view, mut figures) = (TopView::default(), Figures::first(first));
    loop {
        terminal.draw(|frame| draw::draw(frame, &figures, &mut view, palette))?;
        if event::poll(LOOK)?
            && let Event::Key(key) = event::read()?
            && key.kind != KeyEventKind::Release
            && view.press(key) == Step::End
        {
            return Ok(());
        }
        for sample in samples.try_iter() {
            figures.take(sample);
        }
    }
}
