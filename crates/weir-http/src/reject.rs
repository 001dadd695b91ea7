//! Every reason to refuse a message.
//!
//! One closed list for requests and responses: metrics count by it, logs name it, and tests compare with it. A refused
//! request is answered with [`Reject::status`]; a refused response becomes a 502.

/// Why a message is not read any further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reject {
    /// A line ended with LF alone (RFC 9112 §2.2 lets a recipient accept it, but recipients disagree).
    BareLf,
    /// A CR without LF (RFC 9112 §2.2).
    BareCr,
    /// NUL or another control byte in a head.
    ControlByte,
    /// The request line is not `method SP target SP version`.
    RequestLine,
    /// The status line is not `version SP status SP reason`.
    StatusLine,
    /// Not HTTP/1.0 or HTTP/1.1.
    Version,
    /// A field continued on a second line (obs-fold, RFC 9112 §5.2).
    ObsFold,
    /// Blank between a field name and its colon (RFC 9112 §5.1).
    SpaceBeforeColon,
    /// A field name that is no token, or a line without a colon.
    FieldName,
    /// A field value with a byte that values cannot hold.
    FieldValue,
    /// More bytes than a head may have.
    HeadTooLarge,
    /// More fields than a head may have.
    TooManyFields,
    /// The request line alone is longer than a head may be.
    TargetTooLong,
    /// The target is in no form that its method allows, or holds bytes that URIs cannot hold.
    Target,
    /// Some servers read the path as another one, which would take another route, or they see a dot segment that others
    /// do not.
    PathAmbiguous,
    /// HTTP/1.1 without `Host` (RFC 9112 §3.2).
    HostMissing,
    /// More than one `Host`.
    HostRepeated,
    /// `Host` is no authority.
    HostInvalid,
    /// The target and `Host` name different authorities.
    HostDisagrees,
    /// Both `Content-Length` and `Transfer-Encoding` (RFC 9112 §6.1).
    LengthAndEncoding,
    /// More than one `Content-Length`, equal or not.
    LengthRepeated,
    /// `Content-Length` is no plain decimal number of at most 18 digits.
    LengthInvalid,
    /// `Transfer-Encoding` in an HTTP/1.0 message (RFC 9112 §6.1).
    EncodingInHttp10,
    /// `chunked` is missing, repeated or not last.
    EncodingNotChunked,
    /// A transfer coding other than `chunked`.
    EncodingUnknown,
    /// A chunk size that is no hexadecimal number below 2^60.
    ChunkSize,
    /// Chunk extensions with bytes they cannot hold.
    ChunkExtension,
    /// More bytes of chunk extensions than a message may have.
    ChunkExtensionTooLarge,
    /// The data of a chunk is not followed by CRLF.
    ChunkEnd,
    /// A trailer field that is malformed or may not come as a trailer (RFC 9110 §6.5.1).
    Trailer,
    /// More bytes of trailer fields than a message may have.
    TrailerTooLarge,
    /// An expectation other than `100-continue` (RFC 9110 §10.1.1).
    Expectation,
    /// A method that a gateway does not forward: CONNECT, TRACE.
    MethodRefused,
    /// A 101 without a request for it.
    UnaskedUpgrade,
}

impl Reject {
    /// All reasons, for tables of counters.
    pub const ALL: [Self; 34] = [
        Self::BareLf,
        Self::BareCr,
        Self::ControlByte,
        Self::RequestLine,
        Self::StatusLine,
        Self::Version,
        Self::ObsFold,
        Self::SpaceBeforeColon,
        Self::FieldName,
        Self::FieldValue,
        Self::HeadTooLarge,
        Self::TooManyFields,
        Self::TargetTooLong,
        Self::Target,
        Self::PathAmbiguous,
        Self::HostMissing,
        Self::HostRepeated,
        Self::HostInvalid,
        Self::HostDisagrees,
        Self::LengthAndEncoding,
        Self::LengthRepeated,
        Self::LengthInvalid,
        Self::EncodingInHttp10,
        Self::EncodingNotChunked,
        Self::EncodingUnknown,
        Self::ChunkSize,
        Self::ChunkExtension,
        Self::ChunkExtensionTooLarge,
        Self::ChunkEnd,
        Self::Trailer,
        Self::TrailerTooLarge,
        Self::Expectation,
        Self::MethodRefused,
        Self::UnaskedUpgrade,
    ];

    /// The name in metrics, logs and test data.
    pub const fn name(self) -> &'static str {
        match self {
            Self::BareLf => "bare_lf",
            Self::BareCr => "bare_cr",
            Self::ControlByte => "control_byte",
            Self::RequestLine => "request_line",
            Self::StatusLine => "status_line",
            Self::Version => "version",
            Self::ObsFold => "obs_fold",
            Self::SpaceBeforeColon => "space_before_colon",
            Self::FieldName => "field_name",
            Self::FieldValue => "field_value",
            Self::HeadTooLarge => "head_too_large",
            Self::TooManyFields => "too_many_fields",
            Self::TargetTooLong => "target_too_long",
            Self::Target => "target",
            Self::PathAmbiguous => "path_ambiguous",
            Self::HostMissing => "host_missing",
            Self::HostRepeated => "host_repeated",
            Self::HostInvalid => "host_invalid",
            Self::HostDisagrees => "host_disagrees",
            Self::LengthAndEncoding => "length_and_encoding",
            Self::LengthRepeated => "length_repeated",
            Self::LengthInvalid => "length_invalid",
            Self::EncodingInHttp10 => "encoding_in_http10",
            Self::EncodingNotChunked => "encoding_not_chunked",
            Self::EncodingUnknown => "encoding_unknown",
            Self::ChunkSize => "chunk_size",
            Self::ChunkExtension => "chunk_extension",
            Self::ChunkExtensionTooLarge => "chunk_extension_too_large",
            Self::ChunkEnd => "chunk_end",
            Self::Trailer => "trailer",
            Self::TrailerTooLarge => "trailer_too_large",
            Self::Expectation => "expectation",
            Self::MethodRefused => "method_refused",
            Self::UnaskedUpgrade => "unasked_upgrade",
        }
    }

    /// The status of the answer to a request refused for this reason.
    pub const fn status(self) -> u16 {
        match self {
            Self::HeadTooLarge | Self::TooManyFields | Self::TrailerTooLarge => 431,
            Self::TargetTooLong => 414,
            Self::Version => 505,
            Self::EncodingUnknown | Self::MethodRefused => 501,
            Self::Expectation => 417,
            _ => 400,
        }
    }
}

impl std::fmt::Display for Reject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::error::Error for Reject {}
