//! memcached's classic text protocol.
