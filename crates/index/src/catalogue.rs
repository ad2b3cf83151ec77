//! Every index by its name: for options, for benchmarks, for tests that run over all.

use crate::Index;

/// What there is to know about an index before one is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About {
    /// The name users give to `--index`.
    pub name: &'static str,
    /// The cargo feature that it is behind; `None` for ours.
    pub feature: Option<&'static str>,
    /// Whether this build has it.
    pub built: bool,
    /// Whether it keeps keys in order.
    pub ordered: bool,
    /// One line about it.
    pub what: &'static str,
}

/// What to do with an index of a type that only its name decides.
pub trait Visitor {
    /// What comes of it.
    type Out;
    /// Called once. `new` makes an empty index that suits this many entries (a hint: all grow), ready to go into a store: one
    /// that needs keys is wrapped in [`WithStrays`](crate::WithStrays).
    fn visit<I: Index>(self, new: fn(u64) -> I) -> Self::Out;
}

/// The name isn't one of an index in this build; its `Display` says which are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownIndex(String);

impl std::error::Error for UnknownIndex {}

impl std::fmt::Display for UnknownIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(About { name, feature: Some(feature), .. }) =
            ALL.iter().find(|about| about.name == self.0)
        {
            write!(f, "index {name} is not in this build: build it with the cargo feature {feature:?}")?;
        } else {
            write!(f, "no index is called {:?}", self.0)?;
        }
        let names = |built| ALL.iter().filter(move |a| a.built == built).map(|a| a.name).collect::<Vec<_>>();
        write!(f, "; there are {}", names(true).join(", "))?;
        if !names(false).is_empty() {
            write!(f, "; and, behind the cargo feature \"adapters\" or those of their names, ")?;
            f.write_str(&names(false).join(", "))?;
        }
        Ok(())
    }
}

macro_rules! catalogue {
    ($($name:literal, $feature:expr, cfg($($cfg:tt)*), $ordered:literal, $what:literal, $new:expr;)*) => {
        /// All indexes, in this build or not.
        pub const ALL: &[About] = &[$(About {
            name: $name, feature: $feature, built: cfg!($($cfg)*), ordered: $ordered, what: $what,
        }),*];

        /// Lets a visitor have the index of this name.
        ///
        /// # Errors
        /// If this build has none of this name.
        pub fn with_index<V: Visitor>(name: &str, visitor: V) -> Result<V::Out, UnknownIndex> {
            match name {
                $(#[cfg($($cfg)*)] $name => Ok(visitor.visit($new)),)*
                _ => Err(UnknownIndex(name.to_owned())),
            }
        }
    };
}

catalogue! {
    "clht", None, cfg(all()), false, "ours: a hash table of cache lines, without keys",
        |entries| crate::Clht::with_min_buckets((entries / 4).clamp(64, 1 << 24));
    "lockfree", None, cfg(all()), false, "ours: a lock-free hash table of split-ordered lists, without keys",
        |entries| crate::LockFree::with_min_buckets(entries.clamp(64, 1 << 24));
    "btree", None, cfg(all()), true, "ours: a B+tree with optimistic lock coupling",
        |_| crate::WithStrays::new(crate::BTree::new());
    "hashbrown", Some("hashbrown"), cfg(feature = "hashbrown"), false, "hashbrown tables behind locks, without keys",
        |_| crate::adapters::Sharded::default();
    "papaya", Some("papaya"), cfg(feature = "papaya"), false, "papaya's lock-free hash table; no SCAN",
        |_| keyed::<crate::adapters::Papaya>();
    "dashmap", Some("dashmap"), cfg(feature = "dashmap"), false, "dashmap's hash tables behind locks; no SCAN",
        |_| keyed::<crate::adapters::DashMap>();
    "scc-hash", Some("scc-hash"), cfg(feature = "scc-hash"), false, "scc's HashMap; no SCAN",
        |_| keyed::<crate::adapters::SccHash>();
    "scc-tree", Some("scc-tree"), cfg(feature = "scc-tree"), true, "scc's B+tree",
        |_| keyed::<crate::adapters::SccTree>();
    "skiplist", Some("skiplist"), cfg(feature = "skiplist"), true, "crossbeam's skip list",
        |_| keyed::<crate::adapters::SkipList>();
    "congee", Some("congee"), cfg(feature = "congee"), true, "congee's radix tree; fast with keys of 8 bytes only",
        |_| keyed::<crate::adapters::CongeeMap>();
}

/// An index made of the map of another crate.
#[cfg(any(
    feature = "papaya",
    feature = "dashmap",
    feature = "scc-hash",
    feature = "scc-tree",
    feature = "skiplist",
    feature = "congee"
))]
fn keyed<M: crate::adapters::Map + Default>() -> crate::WithStrays<crate::adapters::Striped<M>> {
    crate::WithStrays::new(crate::adapters::Striped::default())
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    struct Name;
    impl Visitor for Name {
        type Out = (&'static str, bool);
        fn visit<I: Index>(self, new: fn(u64) -> I) -> Self::Out {
            let index = new(100);
            (index.name(), index.ordered().is_some())
        }
    }

    #[test]
    fn names_are_those_of_the_indexes() {
        for about in ALL {
            let index = with_index(about.name, Name);
            assert_eq!(index.is_ok(), about.built, "{}", about.name);
            if let Ok(index) = index {
                assert_eq!(index, (about.name, about.ordered));
            } else {
                let error = index.unwrap_err().to_string();
                assert!(error.contains("not in this build") && error.contains("cargo feature"), "{error}");
            }
        }
        let error = with_index("chlt", Name).unwrap_err().to_string();
        assert!(error.contains("no index is called \"chlt\"; there are clht"), "{error}");
    }
}
