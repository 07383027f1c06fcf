//! Programs side by side under the same load: what `lockgate compare` does.
//!
//! Makes no load itself: `lockgate load` does, as a process of its own, and says what came of it.

pub mod cpus;
pub mod guard;
