//! The numbers of the protocol, under the names that doc/proto.md gives them.

/// Defines constants and a table of them for [`name`].
macro_rules! numbers {
    ($(#[$about:meta])* $table:ident: $type:ty { $($name:ident = $value:expr,)* }) => {
        $(
            #[doc = concat!("`", stringify!($name), "` of doc/proto.md.")]
            pub const $name: $type = $value;
        )*
        $(#[$about])*
        pub const $table: &[($type, &str)] = &[$(($name, stringify!($name)),)*];
    };
}

/// First eight bytes that a server sends (`NBDMAGIC`).
pub const NBD_INIT_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// `IHAVEOPT`: second word of the server's greeting, first of each option.
pub const NBD_OPTS_MAGIC: u64 = 0x4948_4156_454f_5054;
/// First word of each option reply.
pub const NBD_REP_MAGIC: u64 = 0x0003_e889_0455_65a9;

numbers! {
    /// What begins a message of the transmission phase.
    MAGICS: u32 {
        NBD_REQUEST_MAGIC = 0x2560_9513,
        NBD_EXTENDED_REQUEST_MAGIC = 0x21e4_1c71,
        NBD_SIMPLE_REPLY_MAGIC = 0x6744_6698,
        NBD_STRUCTURED_REPLY_MAGIC = 0x668e_33ef,
        NBD_EXTENDED_REPLY_MAGIC = 0x6e8a_278c,
    }
}

numbers! {
    /// Handshake flags of the server.
    HANDSHAKE_FLAGS: u16 {
        NBD_FLAG_FIXED_NEWSTYLE = 1,
        NBD_FLAG_NO_ZEROES = 1 << 1,
    }
}

numbers! {
    /// Handshake flags of the client.
    CLIENT_FLAGS: u32 {
        NBD_FLAG_C_FIXED_NEWSTYLE = 1,
        NBD_FLAG_C_NO_ZEROES = 1 << 1,
    }
}

numbers! {
    /// Transmission flags of an export.
    TRANSMISSION_FLAGS: u16 {
        NBD_FLAG_HAS_FLAGS = 1,
        NBD_FLAG_READ_ONLY = 1 << 1,
        NBD_FLAG_SEND_FLUSH = 1 << 2,
        NBD_FLAG_SEND_FUA = 1 << 3,
        NBD_FLAG_ROTATIONAL = 1 << 4,
        NBD_FLAG_SEND_TRIM = 1 << 5,
        NBD_FLAG_SEND_WRITE_ZEROES = 1 << 6,
        NBD_FLAG_SEND_DF = 1 << 7,
        NBD_FLAG_CAN_MULTI_CONN = 1 << 8,
        NBD_FLAG_SEND_RESIZE = 1 << 9,
        NBD_FLAG_SEND_CACHE = 1 << 10,
        NBD_FLAG_SEND_FAST_ZERO = 1 << 11,
        NBD_FLAG_BLOCK_STATUS_PAYLOAD = 1 << 12,
    }
}

/// What a server offers that serves every request.
pub const EVERY_REQUEST: u16 = NBD_FLAG_SEND_FLUSH
    | NBD_FLAG_SEND_FUA
    | NBD_FLAG_SEND_TRIM
    | NBD_FLAG_SEND_WRITE_ZEROES
    | NBD_FLAG_CAN_MULTI_CONN
    | NBD_FLAG_SEND_CACHE
    | NBD_FLAG_SEND_FAST_ZERO;

numbers! {
    /// Options.
    OPTIONS: u32 {
        NBD_OPT_EXPORT_NAME = 1,
        NBD_OPT_ABORT = 2,
        NBD_OPT_LIST = 3,
        NBD_OPT_PEEK_EXPORT = 4,
        NBD_OPT_STARTTLS = 5,
        NBD_OPT_INFO = 6,
        NBD_OPT_GO = 7,
        NBD_OPT_STRUCTURED_REPLY = 8,
        NBD_OPT_LIST_META_CONTEXT = 9,
        NBD_OPT_SET_META_CONTEXT = 10,
        NBD_OPT_EXTENDED_HEADERS = 11,
    }
}

/// Set in every option reply that is an error.
pub const REP_ERROR: u32 = 1 << 31;

numbers! {
    /// Option replies.
    OPTION_REPLIES: u32 {
        NBD_REP_ACK = 1,
        NBD_REP_SERVER = 2,
        NBD_REP_INFO = 3,
        NBD_REP_META_CONTEXT = 4,
        NBD_REP_ERR_UNSUP = REP_ERROR + 1,
        NBD_REP_ERR_POLICY = REP_ERROR + 2,
        NBD_REP_ERR_INVALID = REP_ERROR + 3,
        NBD_REP_ERR_PLATFORM = REP_ERROR + 4,
        NBD_REP_ERR_TLS_REQD = REP_ERROR + 5,
        NBD_REP_ERR_UNKNOWN = REP_ERROR + 6,
        NBD_REP_ERR_SHUTDOWN = REP_ERROR + 7,
        NBD_REP_ERR_BLOCK_SIZE_REQD = REP_ERROR + 8,
        NBD_REP_ERR_TOO_BIG = REP_ERROR + 9,
        NBD_REP_ERR_EXT_HEADER_REQD = REP_ERROR + 10,
    }
}

numbers! {
    /// Information types of INFO and GO.
    INFO_TYPES: u16 {
        NBD_INFO_EXPORT = 0,
        NBD_INFO_NAME = 1,
        NBD_INFO_DESCRIPTION = 2,
        NBD_INFO_BLOCK_SIZE = 3,
    }
}

numbers! {
    /// Commands.
    COMMANDS: u16 {
        NBD_CMD_READ = 0,
        NBD_CMD_WRITE = 1,
        NBD_CMD_DISC = 2,
        NBD_CMD_FLUSH = 3,
        NBD_CMD_TRIM = 4,
        NBD_CMD_CACHE = 5,
        NBD_CMD_WRITE_ZEROES = 6,
        NBD_CMD_BLOCK_STATUS = 7,
        NBD_CMD_RESIZE = 8,
    }
}

numbers! {
    /// Command flags.
    COMMAND_FLAGS: u16 {
        NBD_CMD_FLAG_FUA = 1,
        NBD_CMD_FLAG_NO_HOLE = 1 << 1,
        NBD_CMD_FLAG_DF = 1 << 2,
        NBD_CMD_FLAG_REQ_ONE = 1 << 3,
        NBD_CMD_FLAG_FAST_ZERO = 1 << 4,
        NBD_CMD_FLAG_PAYLOAD_LEN = 1 << 5,
    }
}

numbers! {
    /// Flags of a reply chunk.
    REPLY_FLAGS: u16 {
        NBD_REPLY_FLAG_DONE = 1,
    }
}

/// Set in the type of every error chunk.
pub const REPLY_TYPE_ERROR: u16 = 1 << 15;

numbers! {
    /// Types of reply chunks.
    REPLY_TYPES: u16 {
        NBD_REPLY_TYPE_NONE = 0,
        NBD_REPLY_TYPE_OFFSET_DATA = 1,
        NBD_REPLY_TYPE_OFFSET_HOLE = 2,
        NBD_REPLY_TYPE_BLOCK_STATUS = 5,
        NBD_REPLY_TYPE_BLOCK_STATUS_EXT = 6,
        NBD_REPLY_TYPE_ERROR = REPLY_TYPE_ERROR + 1,
        NBD_REPLY_TYPE_ERROR_OFFSET = REPLY_TYPE_ERROR + 2,
    }
}

numbers! {
    /// Error values.
    ERRORS: u32 {
        NBD_EPERM = 1,
        NBD_EIO = 5,
        NBD_ENOMEM = 12,
        NBD_EINVAL = 22,
        NBD_ENOSPC = 28,
        NBD_EOVERFLOW = 75,
        NBD_ENOTSUP = 95,
        NBD_ESHUTDOWN = 108,
    }
}

numbers! {
    /// Status flags of `base:allocation`.
    STATES: u32 {
        NBD_STATE_HOLE = 1,
        NBD_STATE_ZERO = 1 << 1,
    }
}

/// The metadata context that the protocol itself defines.
pub const BASE_ALLOCATION: &str = "base:allocation";
/// Longest string (export name, query, message) in bytes.
pub const STRING_MAX: usize = 4096;
/// Zeroes that follow the reply to EXPORT_NAME unless `NBD_FLAG_C_NO_ZEROES`.
pub const EXPORT_NAME_ZEROES: usize = 124;
/// Port that IANA assigned.
pub const DEFAULT_PORT: u16 = 10809;

/// The protocol's name of `value` in one of the tables above.
pub fn name<T: PartialEq + Copy>(table: &[(T, &'static str)], value: T) -> &'static str {
    table.iter().find(|(number, _)| *number == value).map_or("unknown", |(_, name)| *name)
}
