"""One row to arrays: features, decoding, resizing, storage. No pandas, no Keras."""
