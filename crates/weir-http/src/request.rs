//! A request head: what it asks for, how its body is framed, and whether the connection goes on.

use std::mem::MaybeUninit;

use crate::body::Framing;
use crate::framing::{Connection, FramingFields};
use crate::head::{self, Field, FieldName, HeadLimits, HeadScan, Span, Version};
use crate::host::Authority;
use crate::target::Target;
use crate::{Fields, Reject};

/// The methods that mean something here; every other token is [`Method::Other`] and passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(missing_docs, reason = "each variant is the method of its name")]
pub enum Method {
    #[default]
    Get,
    Head,
    Post,
    Put,
    Delete,
    Options,
    Patch,
    Other,
}

impl Method {
    /// The method of this name; methods are case-sensitive (RFC 9110 §9.1).
    ///
    /// # Errors
    /// [`Reject::MethodRefused`] for CONNECT, which would open a tunnel to anywhere, and for TRACE, which would show
    /// the client the fields that the gateway added.
    pub fn of(name: &[u8]) -> Result<Self, Reject> {
        Ok(match name {
            b"GET" => Self::Get,
            b"HEAD" => Self::Head,
            b"POST" => Self::Post,
            b"PUT" => Self::Put,
            b"DELETE" => Self::Delete,
            b"OPTIONS" => Self::Options,
            b"PATCH" => Self::Patch,
            b"CONNECT" | b"TRACE" => return Err(Reject::MethodRefused),
            _ => Self::Other,
        })
    }

    /// Whether sending it twice does no more than sending it once (RFC 9110 §9.2.2).
    pub fn is_idempotent(self) -> bool {
        self.is_safe() || matches!(self, Self::Put | Self::Delete)
    }

    /// Whether it asks for no change (RFC 9110 §9.2.1).
    pub fn is_safe(self) -> bool {
        matches!(self, Self::Get | Self::Head | Self::Options)
    }
}

/// How the authority of a request is spelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Spelling {
    /// As it was sent, which is the normal form.
    #[default]
    Normal,
    /// As it was sent, which may not be the normal form.
    Odd,
    /// In normal form, which differs from what was sent: the line of `Host` cannot be copied.
    Settled,
}

/// A request head. One value serves many requests, one after the other.
#[derive(Debug, Default)]
pub struct RequestHead {
    /// The method.
    pub method: Method,
    /// The method as sent.
    pub method_name: Span,
    /// The target.
    pub target: Target,
    /// The target as sent.
    pub target_text: Span,
    /// The version.
    pub version: Version,
    /// All fields in order.
    pub fields: Vec<Field>,
    /// The length of the head in bytes, with the empty line.
    pub head_bytes: usize,
    /// The authority that the request is for: that of the target, else that of `Host`. `None` only in HTTP/1.0.
    pub authority: Option<Span>,
    /// The authority as sent.
    pub authority_text: Option<Span>,
    /// How the authority is spelled.
    pub(crate) spelling: Spelling,
    /// How the body is framed.
    pub framing: Framing,
    /// Whether the client wants to send another request on this connection.
    pub keep_alive: bool,
    /// Whether the client waits for a 100 before it sends the body.
    pub expects_continue: bool,
    /// The value of `Upgrade`, when `Connection` names it. `None` when there are several: a gateway that allows one
    /// protocol by its name would pass the others on with it.
    pub upgrade: Option<Span>,
    /// Whether `Connection` names fields other than the ones every gateway removes.
    pub connection_names_fields: bool,
    /// How many fields are a `Via`.
    pub(crate) via_fields: u16,
}

/// What the bytes received so far contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// An incomplete head.
    Incomplete,
    /// A whole head, of this many bytes.
    Complete(usize),
}

impl RequestHead {
    /// Reads the head at the start of `bytes`, once it is complete.
    ///
    /// `scan` remembers which bytes were looked at; start a new one for each request. The caller must skip empty lines
    /// before the request line, with [`leading_empty_line`]; here they are no request line.
    ///
    /// # Errors
    /// Whatever RFC 9112 forbids or leaves to two readings. The connection cannot be used any further.
    pub fn parse(
        &mut self,
        bytes: &[u8],
        scan: &mut HeadScan,
        limits: HeadLimits,
    ) -> Result<Progress, Reject> {
        match leading_empty_line(bytes)? {
            // This may be half an empty line. The caller will skip it, so `scan` must not have counted it.
            None => return Ok(Progress::Incomplete),
            Some(true) => return Err(Reject::RequestLine),
            Some(false) => {}
        }
        // Nearly every head arrives whole. One pass of the parser is then enough, without the scan.
        let mut end = None;
        if !scan.is_fresh() {
            end = scan.end(bytes, limits)?;
            if end.is_none() {
                return Ok(Progress::Incomplete);
            }
        }
        let mut table = [MaybeUninit::uninit(); HeadLimits::FIELDS_CEILING];
        let mut parsed = httparse::Request::new(&mut []);
        let result = parsed.parse_with_uninit_headers(bytes, &mut table);
        let end = match (result, end) {
            (Ok(httparse::Status::Complete(end)), _)
                if limits.allow(&bytes[..end], parsed.headers) =>
            {
                end
            }
            (result, None) => match scan.end(bytes, limits)? {
                Some(end) => return Err(diagnose(&bytes[..end], result)),
                None => return Ok(Progress::Incomplete),
            },
            (result, Some(end)) => return Err(diagnose(&bytes[..end], result)),
        };
        let head = &bytes[..end];
        let (Some(method), Some(target), Some(minor)) =
            (parsed.method, parsed.path, parsed.version)
        else {
            return Err(Reject::RequestLine);
        };
        self.head_bytes = end;
        self.method = Method::of(method.as_bytes())?;
        self.method_name = Span::within(head, method.as_bytes());
        self.target_text = Span::within(head, target.as_bytes());
        self.target = Target::parse(head, self.target_text, self.method)?;
        self.version = if minor == 0 {
            Version::Http10
        } else {
            Version::Http11
        };
        self.read_fields(head, parsed.headers)?;
        Ok(Progress::Complete(end))
    }

    /// Puts the authority into normal form, in `authority` and in the value of `Host`, for everything that goes by the
    /// host. `head` holds the bytes of the head; a form that was not sent is appended to them.
    pub fn settle_authority(&mut self, scheme: &[u8], head: &mut Vec<u8>) {
        let Some(sent) = self.authority.filter(|_| self.spelling == Spelling::Odd) else {
            return;
        };
        // It was already parsed when the head was read.
        let Ok(authority) = Authority::parse(sent.of(head)) else {
            return;
        };
        if authority.is_normal(scheme) {
            return;
        }
        let mut normal = Vec::new();
        authority.write_normal(scheme, &mut normal);
        let start = head.len() as u32;
        head.extend_from_slice(&normal);
        let settled = Span {
            start,
            end: head.len() as u32,
        };
        self.authority = Some(settled);
        self.spelling = Spelling::Settled;
        let host = self.fields.iter_mut().find(|f| f.id == FieldName::Host);
        if let Some(host) = host {
            host.value = settled;
        }
    }

    /// The fields with their bytes, which lie in `head`.
    pub fn view<'h>(&'h self, head: &'h [u8]) -> Fields<'h> {
        Fields::new(head, &self.fields)
    }

    /// The value of the first field called `name` (lower case).
    pub fn field<'h>(&self, head: &'h [u8], name: &str) -> Option<&'h [u8]> {
        let is_it = |field: &&Field| field.name.of(head).eq_ignore_ascii_case(name.as_bytes());
        self.fields
            .iter()
            .find(is_it)
            .map(|field| field.value.of(head))
    }

    /// The value of the field called `name` (lower case), if there is exactly one.
    pub fn sole_field(&self, head: &[u8], name: &str) -> Option<Span> {
        let is_it = |field: &&Field| field.name.of(head).eq_ignore_ascii_case(name.as_bytes());
        let mut fields = self.fields.iter().filter(is_it);
        let value = fields.next()?.value;
        fields.next().is_none().then_some(value)
    }

    /// The value of the first field that is `id`.
    pub fn known_field(&self, id: FieldName) -> Option<Span> {
        head::known_field(&self.fields, id)
    }

    fn read_fields(&mut self, head: &[u8], fields: &[httparse::Header<'_>]) -> Result<(), Reject> {
        self.fields.clear();
        let (mut host, mut upgrade, mut upgrades) = (None, None, 0);
        let mut framing = FramingFields::default();
        let mut connection = Connection::default();
        self.expects_continue = false;
        self.via_fields = 0;
        for field in fields {
            let name = field.name.as_bytes();
            let id = FieldName::of(name);
            let value = Span::within(head, field.value);
            self.fields.push(Field {
                name: Span::within(head, name),
                value,
                id,
            });
            match id {
                FieldName::Host if host.replace(value).is_some() => {
                    return Err(Reject::HostRepeated);
                }
                FieldName::ContentLength | FieldName::TransferEncoding => {
                    framing.read(id, field.value)?;
                }
                FieldName::Connection => connection.read(field.value)?,
                FieldName::Upgrade => {
                    upgrade = Some(value);
                    upgrades += 1;
                }
                FieldName::Expect if field.value.eq_ignore_ascii_case(b"100-continue") => {
                    self.expects_continue = true;
                }
                FieldName::Expect => return Err(Reject::Expectation),
                FieldName::Via => self.via_fields += 1,
                _ => {}
            }
        }
        self.framing = framing.of_request(self.version)?;
        self.read_authority(head, host)?;
        self.keep_alive = connection.keeps_alive(self.version);
        let may_upgrade = upgrades == 1 && connection.upgrade && self.version == Version::Http11;
        self.upgrade = upgrade.filter(|_| may_upgrade);
        self.connection_names_fields = connection.names_fields;
        // HTTP/1.0 has no interim responses, so its client waits for none (RFC 9110 §10.1.1).
        self.expects_continue &= self.version == Version::Http11 && self.framing != Framing::Empty;
        Ok(())
    }

    fn read_authority(&mut self, head: &[u8], host: Option<Span>) -> Result<(), Reject> {
        if host.is_none() && self.version == Version::Http11 {
            return Err(Reject::HostMissing);
        }
        if let (Some(host), Some(authority)) = (host, self.target.authority)
            && !authority.of(head).eq_ignore_ascii_case(host.of(head))
        {
            Authority::parse(host.of(head))?;
            return Err(Reject::HostDisagrees);
        }
        self.authority = host.or(self.target.authority);
        self.authority_text = self.authority;
        self.spelling = Spelling::Normal;
        if let Some(authority) = self.authority
            && !Authority::parse(authority.of(head))?.is_normal_everywhere()
        {
            self.spelling = Spelling::Odd;
        }
        Ok(())
    }
}

/// Whether `bytes`, where a request line is due, begin with an empty line to skip (RFC 9112 §2.2). `None` while that is
/// not clear.
///
/// # Errors
/// A CR or LF that is no line end.
pub fn leading_empty_line(bytes: &[u8]) -> Result<Option<bool>, Reject> {
    match bytes {
        [] | [b'\r'] => Ok(None),
        [b'\r', b'\n', ..] => Ok(Some(true)),
        [b'\r', ..] => Err(Reject::BareCr),
        [b'\n', ..] => Err(Reject::BareLf),
        _ => Ok(Some(false)),
    }
}

/// Finds out what is wrong with a complete head that was refused.
fn diagnose(head: &[u8], result: httparse::Result<usize>) -> Reject {
    let Err(error) = result else {
        return head::diagnose_fields(head);
    };
    let line_end = memchr::memchr(b'\r', head).unwrap_or(head.len());
    let line = &head[..line_end];
    match error {
        httparse::Error::TooManyHeaders => Reject::TooManyFields,
        httparse::Error::Version if has_three_words(line) && is_version_like(line) => {
            Reject::Version
        }
        httparse::Error::HeaderName | httparse::Error::HeaderValue => head::diagnose_fields(head),
        _ if head.get(line_end + 1).is_some_and(|&b| b != b'\n') => Reject::BareCr,
        _ => head::control_byte(line).unwrap_or_else(|| diagnose_request_line(line, head)),
    }
}

/// A request line of three words: method, target and version, whatever they are.
fn has_three_words(line: &[u8]) -> bool {
    line.split(|&b| b == b' ').count() == 3
}

/// A request line whose last word is `HTTP/digit.digit`.
fn is_version_like(line: &[u8]) -> bool {
    let word = line.rsplit(|&b| b == b' ').next().unwrap_or_default();
    matches!(word, [b'H', b'T', b'T', b'P', b'/', major, b'.', minor] if major.is_ascii_digit() && minor.is_ascii_digit())
}

fn diagnose_request_line(line: &[u8], head: &[u8]) -> Reject {
    let words: Vec<_> = line.split(|&b| b == b' ').collect();
    let well_formed = words.len() == 3
        && words[0].iter().copied().all(head::is_token_byte)
        && is_version_like(line);
    if !well_formed || words[0].is_empty() {
        Reject::RequestLine
    } else if !words[1].iter().all(u8::is_ascii_graphic) {
        Reject::Target
    } else {
        head::diagnose_fields(head)
    }
}

#[cfg(test)]
mod tests;
