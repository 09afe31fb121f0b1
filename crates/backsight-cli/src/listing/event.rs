//! What was executed, for programs: one JSON object per event.

use backsight_core::{Describe, Value as Field};
use backsight_flow::Event;
use serde_json::{Map, Value, json};

/// An event as a JSON object, without its position.
pub fn json(event: &Event) -> Value {
    let mut object = Map::new();
    object.insert("event".to_owned(), json!(event.name()));
    event.fields(&mut |field| {
        let value = value(field.value);
        match field.name.split_once('.') {
            None => object.insert(field.name.to_owned(), value),
            Some((outer, inner)) => {
                let member = object.entry(outer).or_insert_with(|| json!({}));
                member.as_object_mut().and_then(|member| member.insert(inner.to_owned(), value))
            }
        };
    });
    Value::Object(object)
}

fn value(value: Field) -> Value {
    match value {
        Field::Decimal(number) | Field::Hexadecimal(number) => json!(number),
        Field::Padded(number, _) | Field::Bits(number, _) => json!(number),
        Field::Address(address) => json!(address.to_string()),
        Field::Flag(set) => json!(set),
        Field::Word(word) => json!(word),
        Field::Absent => Value::Null,
        Field::Wide(_) | Field::Outcomes(..) => json!(value.to_string()),
    }
}
