-- The model whose reply asked for the call. NULL for records without one, and for those of earlier versions.
ALTER TABLE audit ADD COLUMN model TEXT;
