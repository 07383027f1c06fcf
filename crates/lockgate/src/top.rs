//! `top`: the figures of a running Lockgate on a terminal, each second anew; elsewhere plain rows. Its
//! keys can drain an endpoint.
//!
//! Asks over the admin socket. What is shown is a function of the last figures and of the keys, so
//! that it is tested without a terminal.

mod change;
mod columns;
mod draw;
mod sample;
mod view;

use std::io::IsTerminal as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::time::Duration;

use lockgate_net::threads;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};

use crate::admin_client::find;
use crate::cli::PrintFormat;
use crate::cli::top::TopOptions;
use crate::print::out;
use change::{ChangeOutcome, EndpointChange};
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
    if options.output == PrintFormat::Json {
        out!("{:#}", sample::ask_for_json(&socket)?);
        return Ok(ExitCode::SUCCESS);
    }
    let first = TopSample::ask(&socket)?;
    if options.once || !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        out!("{}", draw::plain(&first).trim_end());
        return Ok(ExitCode::SUCCESS);
    }
    let (send, news) = sync_channel(1);
    let (changes, asked_for) = channel();
    let asking = threads::start("top", {
        let socket = socket.clone();
        move || ask_each_second(&socket, &send, &asked_for)
    })?;
    let mut terminal = ratatui::try_init()?;
    let shown = show(&mut terminal, first, &news, &changes);
    ratatui::restore();
    drop((changes, news));
    // It ends at once, or with the question that it waits for.
    drop(asking);
    shown?;
    Ok(ExitCode::SUCCESS)
}

/// What the thread that asks has to tell.
enum TopNews {
    Sample(anyhow::Result<Box<TopSample>>),
    Changed(ChangeOutcome),
}

/// Asks each second, and after each change, until the other end is gone.
fn ask_each_second(socket: &Path, send: &SyncSender<TopNews>, changes: &Receiver<EndpointChange>) {
    loop {
        let changed = match changes.recv_timeout(EVERY) {
            Ok(change) => Some(TopNews::Changed(change.ask(socket))),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let sample = TopNews::Sample(TopSample::ask(socket).map(Box::new));
        for news in changed.into_iter().chain([sample]) {
            if send.send(news).is_err() {
                return;
            }
        }
    }
}

fn show(
    terminal: &mut DefaultTerminal,
    first: TopSample,
    news: &Receiver<TopNews>,
    changes: &Sender<EndpointChange>,
) -> anyhow::Result<()> {
    let palette = Palette::of_environment();
    let (mut view, mut figures) = (TopView::default(), Figures::first(first));
    let mut has_changed = true;
    loop {
        // A thousand rows are put in order for a picture.
        if std::mem::take(&mut has_changed) {
            terminal.draw(|frame| draw::draw(frame, &figures, &mut view, palette))?;
        }
        if event::poll(LOOK)? {
            has_changed = true;
            if let Event::Key(key) = event::read()?
                && key.kind != KeyEventKind::Release
            {
                match view.press(key) {
                    Step::Continue => {}
                    // The thread has not ended: it would after this end.
                    Step::Change(change) => drop(changes.send(change)),
                    Step::End => return Ok(()),
                }
            }
        }
        for news in news.try_iter() {
            has_changed = true;
            match news {
                TopNews::Sample(sample) => figures.take(sample.map(|sample| *sample)),
                TopNews::Changed(outcome) => view.outcome = Some(outcome),
            }
        }
    }
}
