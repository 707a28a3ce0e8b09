"""What a workspace looks like to people: `insights` reads it, `report` writes it as one page."""
