// Unpacks the Chromium that came with npm and says where it is.
import chromium from "@sparticuz/chromium";

console.log(await chromium.executablePath());
