"""What pages and terminal views show of plans, consolidations and simulations."""
