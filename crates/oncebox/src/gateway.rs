//! The inside, for the program `oncebox` and for tests. It may change in any release: nothing here is promised.

/// See the module of this name.
pub mod clock {
    pub use crate::clock::*;
}
/// See the module of this name.
pub mod delivery {
    pub use crate::delivery::*;
}
/// See the module of this name.
pub mod event {
    pub use crate::event::*;
}
/// See the module of this name.
pub mod fault {
    pub use crate::fault::*;
}
#[cfg(any(feature = "sqlite", feature = "postgres"))]
/// See the module of this name.
pub mod ingest {
    pub use crate::ingest::*;
}
/// See the module of this name.
pub mod lane {
    pub use crate::lane::*;
}
/// See the module of this name.
pub mod limits {
    pub use crate::limits::*;
}
/// See the module of this name.
pub mod message {
    pub use crate::message::*;
}
#[cfg(feature = "http")]
/// See the module of this name.
pub mod outgoing {
    pub use crate::outgoing::*;
}
#[cfg(all(feature = "http", any(feature = "sqlite", feature = "postgres")))]
/// See the module of this name.
pub mod relay {
    pub use crate::relay::*;
}
#[cfg(any(feature = "sqlite", feature = "postgres"))]
/// See the module of this name.
pub mod retention {
    pub use crate::retention::*;
}
/// See the module of this name.
pub mod sealed {
    pub use crate::sealed::*;
}
/// See the module of this name.
pub mod shutdown {
    pub use crate::shutdown::*;
}
#[cfg(any(feature = "sqlite", feature = "postgres"))]
/// See the module of this name.
pub mod store {
    pub use crate::store::*;
}
/// See the module of this name.
pub mod trace {
    pub use crate::trace::*;
}
/// See the module of this name.
pub mod vendor {
    pub use crate::vendor::*;
}
/// See the module of this name.
pub mod wake {
    pub use crate::wake::*;
}
#[cfg(any(feature = "sqlite", feature = "postgres"))]
/// See the module of this name.
pub mod worker {
    pub use crate::worker::*;
}
