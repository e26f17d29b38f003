"""Account: the services of AWS that the provider uses, over one seam."""

from wainwright.aws.beside import Eks, PriceList, Ssm
from wainwright.aws.ec2 import Ec2
from wainwright.aws.iam import Iam
from wainwright.aws.seam import Seam


class Account:
    def __init__(self, seam: Seam) -> None:
        self.seam = seam
        self.ec2 = Ec2(seam)
        self.iam = Iam(seam)
        self.ssm = Ssm(seam)
        self.eks = Eks(seam)
        self.prices = PriceList(seam)
