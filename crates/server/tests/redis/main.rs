//! Redis's protocol on a running server, compared with what the original answers.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod acl;
mod admin;
mod advice;
mod answers;
mod bounds;
mod caches;
mod client;
mod clients;
mod conformance;
mod connections;
mod coverage;
mod differential;
mod durable;
mod events;
mod full;
mod hostile;
mod idle;
mod kept;
mod keyspace;
mod loading;
mod order;
mod original;
mod ours;
mod parts;
mod pubsub;
mod random;
mod rdb;
mod says;
mod snapshot;
mod table;
mod tracking;
mod transactions;
