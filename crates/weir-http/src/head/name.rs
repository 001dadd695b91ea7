//! The names of fields. Each is compared once, when a head is read, and is a number afterwards.

/// The fields that a gateway or its cache reads, rewrites or removes. Every other one is [`FieldName::Other`] and
/// passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant is the field of its name")]
pub enum FieldName {
    Accept,
    AcceptCharset,
    AcceptEncoding,
    AcceptLanguage,
    AcceptRanges,
    Age,
    Authorization,
    CacheControl,
    CacheStatus,
    CacheTag,
    CdnCacheControl,
    Connection,
    ContentEncoding,
    ContentLength,
    ContentLocation,
    ContentMd5,
    ContentRange,
    ContentType,
    Cookie,
    Date,
    Etag,
    Expect,
    Expires,
    Host,
    Http2Settings,
    IfMatch,
    IfModifiedSince,
    IfNoneMatch,
    IfRange,
    IfUnmodifiedSince,
    KeepAlive,
    LastModified,
    Location,
    Pragma,
    Proxy,
    ProxyAuthenticate,
    ProxyAuthenticationInfo,
    ProxyAuthorization,
    ProxyConnection,
    Range,
    Referer,
    SetCookie,
    SurrogateKey,
    Te,
    Trailer,
    TransferEncoding,
    Upgrade,
    UserAgent,
    Vary,
    Via,
    XForwardedFor,
    XForwardedHost,
    XForwardedProto,
    Other,
}

impl FieldName {
    /// The length of the longest known name.
    pub(crate) const BYTES_MAX: usize = "proxy-authentication-info".len();

    /// Which field `name` is, in any case of letters.
    pub fn of(name: &[u8]) -> Self {
        // Length and first letter leave at most three candidates.
        let Some(first) = name.first() else {
            return Self::Other;
        };
        match (name.len(), first | 0x20) {
            (2, b't') if is(name, b"te") => Self::Te,
            (3, b'a') if is(name, b"age") => Self::Age,
            (3, b'v') if is(name, b"via") => Self::Via,
            (4, b'd') if is(name, b"date") => Self::Date,
            (4, b'e') if is(name, b"etag") => Self::Etag,
            (4, b'h') if is(name, b"host") => Self::Host,
            (4, b'v') if is(name, b"vary") => Self::Vary,
            (5, b'p') if is(name, b"proxy") => Self::Proxy,
            (5, b'r') if is(name, b"range") => Self::Range,
            (6, b'a') if is(name, b"accept") => Self::Accept,
            (6, b'c') if is(name, b"cookie") => Self::Cookie,
            (6, b'e') if is(name, b"expect") => Self::Expect,
            (6, b'p') if is(name, b"pragma") => Self::Pragma,
            (7, b'e') if is(name, b"expires") => Self::Expires,
            (7, b'r') if is(name, b"referer") => Self::Referer,
            (7, b't') if is(name, b"trailer") => Self::Trailer,
            (7, b'u') if is(name, b"upgrade") => Self::Upgrade,
            (8, b'i') if is(name, b"if-match") => Self::IfMatch,
            (8, b'i') if is(name, b"if-range") => Self::IfRange,
            (8, b'l') if is(name, b"location") => Self::Location,
            (9, b'c') if is(name, b"cache-tag") => Self::CacheTag,
            (10, b'c') if is(name, b"connection") => Self::Connection,
            (10, b'k') if is(name, b"keep-alive") => Self::KeepAlive,
            (10, b's') if is(name, b"set-cookie") => Self::SetCookie,
            (10, b'u') if is(name, b"user-agent") => Self::UserAgent,
            (11, b'c') if is(name, b"content-md5") => Self::ContentMd5,
            (12, b'c') if is(name, b"cache-status") => Self::CacheStatus,
            (12, b'c') if is(name, b"content-type") => Self::ContentType,
            (13, b'a') if is(name, b"accept-ranges") => Self::AcceptRanges,
            (13, b'a') if is(name, b"authorization") => Self::Authorization,
            (13, b'c') if is(name, b"cache-control") => Self::CacheControl,
            (13, b'c') if is(name, b"content-range") => Self::ContentRange,
            (13, b'i') if is(name, b"if-none-match") => Self::IfNoneMatch,
            (13, b'l') if is(name, b"last-modified") => Self::LastModified,
            (13, b's') if is(name, b"surrogate-key") => Self::SurrogateKey,
            (14, b'a') if is(name, b"accept-charset") => Self::AcceptCharset,
            (14, b'c') if is(name, b"content-length") => Self::ContentLength,
            (14, b'h') if is(name, b"http2-settings") => Self::Http2Settings,
            (15, b'a') if is(name, b"accept-encoding") => Self::AcceptEncoding,
            (15, b'a') if is(name, b"accept-language") => Self::AcceptLanguage,
            (15, b'x') if is(name, b"x-forwarded-for") => Self::XForwardedFor,
            (16, b'c') if is(name, b"content-encoding") => Self::ContentEncoding,
            (16, b'c') if is(name, b"content-location") => Self::ContentLocation,
            (16, b'p') if is(name, b"proxy-connection") => Self::ProxyConnection,
            (16, b'x') if is(name, b"x-forwarded-host") => Self::XForwardedHost,
            (17, b'c') if is(name, b"cdn-cache-control") => Self::CdnCacheControl,
            (17, b'i') if is(name, b"if-modified-since") => Self::IfModifiedSince,
            (17, b't') if is(name, b"transfer-encoding") => Self::TransferEncoding,
            (17, b'x') if is(name, b"x-forwarded-proto") => Self::XForwardedProto,
            (18, b'p') if is(name, b"proxy-authenticate") => Self::ProxyAuthenticate,
            (19, b'i') if is(name, b"if-unmodified-since") => Self::IfUnmodifiedSince,
            (19, b'p') if is(name, b"proxy-authorization") => Self::ProxyAuthorization,
            (25, b'p') if is(name, b"proxy-authentication-info") => Self::ProxyAuthenticationInfo,
            _ => Self::Other,
        }
    }

    /// Whether it holds for one connection only, or for the proxy that sent it. Such fields are never stored and never
    /// passed on (RFC 9110 §7.6.1, RFC 9111 §3.1).
    pub fn is_hop_by_hop(self) -> bool {
        matches!(
            self,
            Self::Connection
                | Self::KeepAlive
                | Self::ProxyAuthenticate
                | Self::ProxyAuthenticationInfo
                | Self::ProxyAuthorization
                | Self::ProxyConnection
                | Self::Te
                | Self::Trailer
                | Self::TransferEncoding
                | Self::Upgrade
        )
    }

    /// Whether a request with it asks for something other than the whole representation (RFC 9110 §13.1, §14.2).
    pub fn makes_conditional(self) -> bool {
        matches!(
            self,
            Self::IfMatch
                | Self::IfModifiedSince
                | Self::IfNoneMatch
                | Self::IfRange
                | Self::IfUnmodifiedSince
                | Self::Range
        )
    }
}

/// Whether a token, or a member of a list of tokens, is `text`, which is in lower case. Setting the bit for lower case
/// keeps hyphens and digits as they are. Besides letters, it only maps control characters, which no head holds, to
/// bytes of `text`. The known length lets the comparison take a few machine words.
pub(crate) fn is<const N: usize>(name: &[u8], text: &[u8; N]) -> bool {
    let Ok(name) = <&[u8; N]>::try_from(name) else {
        return false;
    };
    let differences = name.iter().zip(text).map(|(n, t)| (n | 0x20) ^ t);
    differences.fold(0, |all, difference| all | difference) == 0
}
