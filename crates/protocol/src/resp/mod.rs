//! RESP2 and RESP3, the Redis serialization protocol.
