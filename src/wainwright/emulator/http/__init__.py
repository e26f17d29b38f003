"""The emulated account over HTTP, in the protocols of AWS itself.

Codecs built from botocore's service models turn requests into the parameters of boto3's methods,
and results into responses. The emulated account is the same as in process.
"""
