"""Looking at data: pictures of rows, and figures of a frame; matplotlib draws them."""
