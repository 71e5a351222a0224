"""configure_gpus: settings (checked) -> plan (pure) -> applied setup."""
