"""The emulated cards, and the guests that they are in. To test another card, add a line."""

from dataclasses import dataclass

from machine import Guest


@dataclass(frozen=True)
class Card:
    name: str
    device: str     # QEMU's, with its options
    driver: str     # of DPDK, as the data plane's table of ports shows it
    library: str    # of DPDK, that has the driver
    bound_to: str   # driver of the guest's kernel
    pci_id: str     # vendor:device, so that another card is not taken for it
    queues: int = 1
    isa: str = ""   # WEIR_FORCE_ISA; empty: the data plane chooses


VIRTIO, E1000, VMXNET3 = "librte_net_virtio.so", "librte_net_e1000.so", "librte_net_vmxnet3.so"

GUESTS = (
    # All that TCG has: AVX2.
    Guest("vfio", cpu="max", isa="avx2", numa=True, iommu=True, cards=(
        Card("virtio-rss-vfio", "virtio-net-pci,disable-legacy=on,iommu_platform=on,mq=on,rss=on,vectors=6",
             "net_virtio", VIRTIO, "vfio-pci", "1af4:1041", queues=2),
        Card("virtio-vfio", "virtio-net-pci,disable-legacy=on,iommu_platform=on",
             "net_virtio", VIRTIO, "vfio-pci", "1af4:1041"),
        Card("e1000-vfio", "e1000", "net_e1000_em", E1000, "vfio-pci", "8086:100e"),
        Card("e1000-82545em-vfio", "e1000-82545em", "net_e1000_em", E1000, "vfio-pci", "8086:100f", isa="scalar"),
        Card("e1000e-vfio", "e1000e", "net_e1000_em", E1000, "vfio-pci", "8086:10d3"),
    )),
    # The oldest processor that weir runs on (x86-64-v2). No IOMMU: QEMU's vmxnet3 does not work behind one.
    Guest("uio", cpu="Nehalem", isa="scalar", numa=False, iommu=False, cards=(
        Card("virtio-transitional-uio", "virtio-net-pci-transitional",
             "net_virtio", VIRTIO, "uio_pci_generic", "1af4:1000"),
        Card("e1000-uio", "e1000", "net_e1000_em", E1000, "uio_pci_generic", "8086:100e"),
        Card("vmxnet3-uio", "vmxnet3", "net_vmxnet3", VMXNET3, "uio_pci_generic", "15ad:07b0"),
    )),
)
