//! Adapters: indexes made of other crates' maps, to measure ours against and for whoever trusts one of them more. Each is
//! behind a cargo feature of its name; `adapters` builds all.
//!
//! ```text
//!   Index --> Striped<M: Map> --- locks, steps of several keys, counts ---> papaya, dashmap, scc-hash   (unordered)
//!         \                                                            \--> scc-tree, skiplist, congee  (ordered)
//!          \-> Sharded: a lock and a hashbrown table a shard, without keys
//! ```
//!
//! A map keeps names: the database's byte, then the key's bytes; so its order is the order that
//! [`OrderedIndex`](crate::OrderedIndex) asks for.
#![doc = include_str!("../../../../docs/adding-an-index.md")]

#[cfg(feature = "congee")]
mod congee;
#[cfg(feature = "dashmap")]
mod dashmap;
#[cfg(feature = "hashbrown")]
mod hashbrown;
mod map;
mod name;
mod ordered;
#[cfg(feature = "papaya")]
mod papaya;
#[cfg(feature = "scc-hash")]
mod scc_hash;
#[cfg(feature = "scc-tree")]
mod scc_tree;
#[cfg(feature = "skiplist")]
mod skiplist;
mod striped;
mod stripes;

#[cfg(feature = "congee")]
pub use congee::CongeeMap;
#[cfg(feature = "dashmap")]
pub use dashmap::DashMap;
#[cfg(feature = "hashbrown")]
pub use hashbrown::Sharded;
pub use map::{Map, OrderedMap, Page};
#[cfg(feature = "papaya")]
pub use papaya::Papaya;
#[cfg(feature = "scc-hash")]
pub use scc_hash::SccHash;
#[cfg(feature = "scc-tree")]
pub use scc_tree::SccTree;
#[cfg(feature = "skiplist")]
pub use skiplist::SkipList;
pub use striped::Striped;
