//! The path of one route, segment by segment.
//!
//! The radix tree finds the most specific path of all; this says whether one path serves a request, what its parameters
//! stand for, and how specific it is.

/// A path of a route.
#[derive(Debug)]
pub(super) struct Pattern {
    segments: Vec<Segment>,
}

#[derive(Debug, PartialEq, Eq)]
enum Segment {
    Static(Box<str>),
    Parameter(Box<str>),
    /// All that follows, which may be nothing.
    Rest(Box<str>),
}

/// How general a segment is; less is more specific.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Openness {
    Static,
    Parameter,
    CatchAll,
}

impl Pattern {
    pub(super) fn new(path: &str) -> Self {
        let segment = |text: &str| {
            let name = text
                .strip_prefix('{')
                .and_then(|text| text.strip_suffix('}'));
            match name {
                None => Segment::Static(text.into()),
                Some(name) => match name.strip_prefix('*') {
                    Some(name) => Segment::Rest(name.into()),
                    None => Segment::Parameter(name.into()),
                },
            }
        };
        Self {
            segments: path.split('/').skip(1).map(segment).collect(),
        }
    }

    /// Compared from the first segment on.
    pub(super) fn openness(&self) -> Vec<Openness> {
        let openness = |segment: &Segment| match segment {
            Segment::Static(_) => Openness::Static,
            Segment::Parameter(_) => Openness::Parameter,
            Segment::Rest(_) => Openness::CatchAll,
        };
        self.segments.iter().map(openness).collect()
    }

    pub(super) fn serves(&self, path: &str) -> bool {
        self.read(path, |_, _| {})
    }

    /// The value of the parameter `name` in `path`.
    pub(super) fn value<'p>(&self, path: &'p str, name: &str) -> Option<&'p str> {
        let mut found = None;
        let is_served = self.read(path, |own, value| {
            if own == name {
                found = Some(value);
            }
        });
        found.filter(|_| is_served)
    }

    /// Whether it serves `path`, in normal form. Tells each parameter with its value, in order, until it is known.
    pub(super) fn read<'s, 'p>(
        &'s self,
        path: &'p str,
        mut tell: impl FnMut(&'s str, &'p str),
    ) -> bool {
        let mut left = path.strip_prefix('/');
        for segment in &self.segments {
            let Some(rest) = left else { return false };
            let (piece, after) = match rest.split_once('/') {
                Some((piece, after)) => (piece, Some(after)),
                None => (rest, None),
            };
            match segment {
                Segment::Static(text) if **text == *piece => {}
                Segment::Parameter(name) if !piece.is_empty() => tell(name, piece),
                Segment::Rest(name) => {
                    tell(name, rest);
                    return true;
                }
                Segment::Static(_) | Segment::Parameter(_) => return false,
            }
            left = after;
        }
        left.is_none()
    }

    /// Whether there is a path that both serve.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        let mut pairs = self.segments.iter().zip(&other.segments);
        for (one, other) in pairs.by_ref() {
            match (one, other) {
                (Segment::Rest(_), _) | (_, Segment::Rest(_)) => return true,
                (Segment::Static(one), Segment::Static(other)) if one != other => return false,
                (Segment::Static(text), Segment::Parameter(_))
                | (Segment::Parameter(_), Segment::Static(text))
                    if text.is_empty() =>
                {
                    return false;
                }
                _ => {}
            }
        }
        self.segments.len() == other.segments.len()
    }
}
