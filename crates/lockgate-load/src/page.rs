//! A page with its objects, loaded as a browser loads it: when it can be shown, and when it is
//! complete.
//!
//! `scan`, `characters`, `style` and `reference` know no IO: they turn the bytes of a page into
//! references; lol_html finds the elements. `load` makes one load, `run` several; `result` has the
//! types of the report.
//!
//! As in a browser: objects are found while the page still comes, and fetched in the order of the
//! document and of their priority, each once, over a few connections of HTTP/1.1 that are used
//! again or over one of HTTP/2. Unlike a browser: no script runs and there is no layout, so that
//! requests of scripts are missing, and images that are out of view are included.

mod characters;
mod load;
mod plan;
pub mod reference;
pub mod result;
mod run;
pub mod scan;
mod style;

pub use plan::PagePlan;
pub use run::{PageError, run};
