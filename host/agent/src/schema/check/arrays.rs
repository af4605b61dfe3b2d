//! Checks the keywords about arrays.

use super::{Answer, Check, EvaluatedParts, LocatedPart, Place, mark_seen, quiet};
use crate::schema::compare::are_unique;
use crate::schema::meter::as_u64;
use crate::schema::node::{Contains, Items, Keyword, NodeId};
use crate::schema::report;
use serde_json::Value;

impl<'s> Check<'s> {
    pub(super) fn of_array(
        &mut self,
        keyword: &'s Keyword,
        elements: &[Value],
        at: LocatedPart<'_>,
        seen: Option<&mut EvaluatedParts>,
    ) -> Answer {
        match keyword {
            Keyword::Elements(least, most) => {
                let words = ("has less than", "has more than");
                self.counted(as_u64(elements.len()), (*least, *most), at, words, ("item", "items"))
            }
            Keyword::UniqueElements => {
                let unique = are_unique(elements, &mut self.meter)?;
                self.holds(unique, at, || format!("{} has non-unique elements", report::shown(at.value)))
            }
            Keyword::Items(items) => self.items(items, elements, at, seen),
            Keyword::Contains(contains) => self.contains(contains, elements, at, seen),
            Keyword::UnevaluatedElements(rest) => self.unseen_elements(*rest, elements, at, seen),
            other => self.of_scalar(other, at),
        }
    }

    fn items(
        &mut self,
        items: &'s Items,
        elements: &[Value],
        at: LocatedPart<'_>,
        mut seen: Option<&mut EvaluatedParts>,
    ) -> Answer {
        let mut fits = true;
        for (index, element) in elements.iter().enumerate() {
            let Some(node) = items.prefix.get(index).copied().or(items.rest) else { break };
            mark_seen(&mut seen, index);
            let place = Place::Element(at.place, index);
            fits &= self.apply(node, LocatedPart { value: element, place: &place, ..at }, None)?;
            if !fits && !at.collects {
                break;
            }
        }
        Ok(fits)
    }

    fn contains(
        &mut self,
        contains: &'s Contains,
        elements: &[Value],
        at: LocatedPart<'_>,
        mut seen: Option<&mut EvaluatedParts>,
    ) -> Answer {
        let mut count = 0;
        for (index, element) in elements.iter().enumerate() {
            if self.apply(contains.node, quiet(element), None)? {
                count += 1;
                mark_seen(&mut seen, index);
                let is_known = count >= contains.least && contains.most.is_none_or(|most| count > most);
                if is_known && seen.is_none() {
                    break;
                }
            }
        }
        let (least, most) = (contains.least, contains.most);
        if count < least {
            return self.fail(at, || match least {
                1 => format!("None of {} are valid under the given schema", report::shown(at.value)),
                _ => format!(
                    "{count} of {} are valid under the given schema, at least {least} must be",
                    report::shown(at.value)
                ),
            });
        }
        self.holds(most.is_none_or(|most| count <= most), at, || {
            let most = most.unwrap_or_default();
            format!("more than {most} of {} are valid under the given schema", report::shown(at.value))
        })
    }

    fn unseen_elements(
        &mut self,
        rest: NodeId,
        elements: &[Value],
        at: LocatedPart<'_>,
        mut seen: Option<&mut EvaluatedParts>,
    ) -> Answer {
        let mut unexpected = 0;
        for (index, element) in elements.iter().enumerate() {
            if seen.as_ref().is_some_and(|seen| seen[index]) {
                continue;
            }
            mark_seen(&mut seen, index);
            if !self.apply(rest, quiet(element), None)? {
                unexpected += 1;
                if !at.collects {
                    return Ok(false);
                }
            }
        }
        self.holds(unexpected == 0, at, || {
            let (items, were) = if unexpected == 1 { ("item", "was") } else { ("items", "were") };
            format!("Unevaluated items are not allowed ({unexpected} {items} {were} unexpected)")
        })
    }
}
