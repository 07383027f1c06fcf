//! A page with its objects, loaded as a browser loads it: when it can be shown, and when it is
//! complete.
//!
//! `html`, `characters`, `style`, `scan` and `reference` know no IO: from bytes of a page to what
//! is fetched. `load` is one load, `run` several, `result` what came of them.
//!
//! As in a browser: objects are found while the page still comes, wanted in the order of the
//! document and by what they are, over a few connections of HTTP/1.1 that are used again or one of
//! HTTP/2; each once. Not as in one: nothing is run or laid out, so what scripts ask for is
//! missing, and images that nobody would see are there.

mod characters;
pub mod html;
mod load;
mod plan;
pub mod reference;
pub mod result;
mod run;
mod scan;
mod style;

pub use plan::PagePlan;
pub use run::{PageError, run};
