//! space-hybrid-log.
