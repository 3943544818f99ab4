"""Trees and runs shown to people: as outlines, drawings and live trees."""
