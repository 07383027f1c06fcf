//! A listener while it runs: its settings change with the configuration, its counters and
//! connections stay.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use lockgate_limits::ListenerId;

use super::ListenerSettings;
use crate::generation::Generation;
use crate::metrics::{ListenerCells, SharedCells};
use crate::site::ListenerSites;

/// The settings of a listener in one configuration, as one worker runs it.
#[derive(Debug)]
pub struct ListenerSnapshot {
    /// The settings.
    pub settings: Arc<ListenerSettings>,
    /// The generation of the settings.
    pub generation: Rc<Generation>,
}

impl ListenerSnapshot {
    /// The sites of a listener that serves some.
    pub(super) fn sites(&self) -> &ListenerSites {
        self.settings
            .sites()
            .expect("a listener with sites has some in each configuration")
    }
}

/// A listener of one worker.
#[derive(Debug)]
pub struct ActiveListener {
    /// Its number in the process.
    pub id: ListenerId,
    /// Its counters.
    pub(super) cells: SharedCells<ListenerCells>,
    snapshot: RefCell<Rc<ListenerSnapshot>>,
    draining: Cell<bool>,
}

impl ActiveListener {
    /// A listener with its first settings.
    pub fn new(
        id: ListenerId,
        cells: SharedCells<ListenerCells>,
        snapshot: ListenerSnapshot,
    ) -> Rc<Self> {
        Rc::new(Self {
            id,
            cells,
            snapshot: RefCell::new(Rc::new(snapshot)),
            draining: Cell::new(false),
        })
    }

    /// Its settings now.
    pub fn snapshot(&self) -> Rc<ListenerSnapshot> {
        Rc::clone(&self.snapshot.borrow())
    }

    /// Changes its settings, for requests that begin from now on.
    pub fn update(&self, snapshot: ListenerSnapshot) {
        self.snapshot.replace(Rc::new(snapshot));
    }

    /// Has its connections take no further request: no configuration has it any more.
    pub fn drain(&self) {
        self.draining.set(true);
    }

    /// Whether its connections take no further request.
    pub(super) fn is_draining(&self) -> bool {
        self.draining.get()
    }
}
