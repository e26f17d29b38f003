"""The emulated account over HTTP, in the protocols of AWS itself.

A codec made of botocore's service models turns requests into what boto3's methods take, and what
they give back into responses. The emulator behind it is the same as in process."""
