//! Forward passes without an engine: weights packed once, keys and values kept from call to call, nothing allocated in between.
//!
//! A text is written token by token, with the same weights for all of them. So [`PackedLinear`] turns a weight once into the form its
//! product is made in, and [`KeyValues`] keeps what attention needs of earlier positions. Both take any number of rows at a time, and
//! **a row of the result has the same bits however many rows are given with it**: every sum of a row runs over that row's own
//! terms, in an order that its length alone decides. So a position computed alone, behind the positions that are kept, and the same
//! position computed with all of them agree to the last bit.

mod key_values;
mod lines;
mod packed_linear;

pub use key_values::KeyValues;
pub use packed_linear::PackedLinear;
