"""What lanes write for lanes: records that no other service needs."""
