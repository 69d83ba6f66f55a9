//! The files that `golden/make.py` made with PyTorch.

use burtorch_gpt::model::{Gpt, ModelConfig};
use burtorch_tensor::{Element, Params};
use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use serde_json::Value;

use crate::{Batch, Model, Outcome};

/// One golden file; what each tensor in it is, the script says at its top.
pub struct Golden {
    bytes: Vec<u8>,
    description: Value,
}

impl Golden {
    /// Reads `golden/{name}.safetensors`.
    ///
    /// # Errors
    /// If there is no such file or it lacks its description.
    pub fn load(name: &str) -> Outcome<Self> {
        let path = format!("{}/golden/{name}.safetensors", env!("CARGO_MANIFEST_DIR"));
        let bytes = std::fs::read(&path).map_err(|error| format!("{path}: {error}"))?;
        let (_, metadata) = SafeTensors::read_metadata(&bytes)?;
        let description = metadata
            .metadata()
            .as_ref()
            .and_then(|entries| entries.get("golden"));
        let description =
            serde_json::from_str(description.ok_or_else(|| format!("{path}: no description"))?)?;
        Ok(Golden { bytes, description })
    }

    fn tensor<R>(
        &self,
        key: &str,
        wanted: Dtype,
        read: impl Fn(&TensorView<'_>) -> R,
    ) -> Outcome<R> {
        let file = SafeTensors::deserialize(&self.bytes)?;
        let tensor = file
            .tensor(key)
            .map_err(|error| format!("{key}: {error}"))?;
        if tensor.dtype() != wanted {
            return Err(format!("{key}: expected {wanted:?}, found {:?}", tensor.dtype()).into());
        }
        Ok(read(&tensor))
    }

    /// The numbers of an f64 tensor.
    ///
    /// # Errors
    /// If there is no such tensor or it has another type.
    pub fn numbers(&self, key: &str) -> Outcome<Vec<f64>> {
        self.tensor(key, Dtype::F64, |tensor| {
            words(tensor).map(f64::from_le_bytes).collect()
        })
    }

    /// The numbers of an i64 tensor, as token ids.
    ///
    /// # Errors
    /// As [`Golden::numbers`]; also for a number that is no `u32`.
    pub fn integers(&self, key: &str) -> Outcome<Vec<u32>> {
        let wide: Vec<i64> = self.tensor(key, Dtype::I64, |tensor| {
            words(tensor).map(i64::from_le_bytes).collect()
        })?;
        Ok(wide
            .into_iter()
            .map(u32::try_from)
            .collect::<Result<_, _>>()?)
    }

    /// The dimensions of a tensor of f64.
    ///
    /// # Errors
    /// As [`Golden::numbers`].
    pub fn dims(&self, key: &str) -> Outcome<Vec<usize>> {
        self.tensor(key, Dtype::F64, |tensor| tensor.shape().to_vec())
    }

    /// The names of the tensors that start with `prefix`, without it.
    ///
    /// # Errors
    /// If the file is damaged.
    pub fn names(&self, prefix: &str) -> Outcome<Vec<String>> {
        let file = SafeTensors::deserialize(&self.bytes)?;
        Ok(file
            .names()
            .iter()
            .filter_map(|name| name.strip_prefix(prefix))
            .map(str::to_owned)
            .collect())
    }

    /// A number of the description, by its JSON pointer, e.g. `/training/clip`.
    ///
    /// # Errors
    /// If there is none.
    pub fn setting(&self, pointer: &str) -> Outcome<f64> {
        let value = self.description.pointer(pointer).and_then(Value::as_f64);
        value.ok_or_else(|| format!("the description has no number {pointer}").into())
    }

    /// The model of the file with its weights at the start.
    ///
    /// # Errors
    /// If the file and our model disagree about names or shapes of parameters.
    pub fn model<T: Element>(&self) -> Outcome<Model<T>> {
        let config: ModelConfig = serde_json::from_value(self.description["config"].clone())?;
        let mut params = Params::new();
        let gpt = Gpt::new(&config, &mut params, 0)?;
        let (theirs, ours) = (self.names("parameter.")?.len(), params.entries().len());
        if theirs != ours {
            return Err(format!("the file has {theirs} parameters, our model {ours}").into());
        }
        for entry in params.entries() {
            let (dims, found) = (
                self.dims(&format!("parameter.{}", entry.name))?,
                entry.shape,
            );
            if dims != found.dims() {
                return Err(
                    format!("{}: {dims:?} in the file, {found} in our model", entry.name).into(),
                );
            }
        }
        let start = self.flat("parameter", &params)?;
        params
            .values_mut()
            .iter_mut()
            .zip(start)
            .for_each(|(value, start)| *value = T::from_f64(start));
        Ok(Model { gpt, params })
    }

    /// The tensors `{kind}.{name}` of all parameters as one flat buffer of our layout.
    ///
    /// # Errors
    /// As [`Golden::numbers`].
    pub fn flat<T: Element>(&self, kind: &str, params: &Params<T>) -> Outcome<Vec<f64>> {
        let parts: Outcome<Vec<_>> = params
            .entries()
            .iter()
            .map(|entry| self.numbers(&format!("{kind}.{}", entry.name)))
            .collect();
        Ok(parts?.concat())
    }

    /// The batch that logits, loss and gradients belong to.
    ///
    /// # Errors
    /// As [`Golden::integers`].
    pub fn batch(&self) -> Outcome<Batch> {
        Ok(Batch::new(
            &self.integers("tokens")?,
            &self.integers("targets")?,
            self.sequences()?,
        ))
    }

    /// The batches of the training curve, one a step.
    ///
    /// # Errors
    /// As [`Golden::integers`].
    pub fn curve(&self) -> Outcome<Vec<Batch>> {
        let (sequences, steps) = (self.sequences()?, self.numbers("curve.losses")?.len());
        let windows = self.integers("curve.windows")?;
        let width = windows.len() / (sequences * steps);
        Ok(windows
            .chunks(sequences * width)
            .map(|step| Batch::from_windows(step, width))
            .collect())
    }

    fn sequences(&self) -> Outcome<usize> {
        Ok(self.dims("logits")?[0])
    }
}

/// The eight-byte words of a tensor's data.
fn words(tensor: &TensorView<'_>) -> impl Iterator<Item = [u8; 8]> {
    tensor.data().as_chunks().0.iter().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_what_is_missing_or_of_another_type() -> Outcome {
        assert!(Golden::load("none").is_err());
        let golden = Golden::load("mini")?;
        for error in [
            golden.numbers("parameter.none"),
            golden.numbers("tokens"),
            golden.numbers("parameter."),
        ] {
            let message = error.unwrap_err().to_string();
            assert!(
                message.contains("parameter.") || message.contains("tokens"),
                "{message}"
            );
        }
        assert!(golden.integers("logits").is_err());
        assert!(golden.setting("/training/none").is_err());
        Ok(())
    }

    #[test]
    fn cuts_the_curve_into_batches() -> Outcome {
        let golden = Golden::load("mini")?;
        let (batches, windows) = (golden.curve()?, golden.integers("curve.windows")?);
        assert_eq!((batches.len(), batches[0].sequences()), (100, 3));
        // Block 6: the first window is tokens 0..6, and its targets start at token 1.
        assert_eq!(batches[0].token_ids()[..6], windows[..6]);
        assert_eq!(batches[0].target_ids()[..6], windows[1..7]);
        assert_eq!(batches[99].target_ids().last(), windows.last());
        Ok(())
    }
}
